"""What a machine lacks is pruned from the plan before it begins."""

from __future__ import annotations

from pathlib import Path

from tether.agent.domain import Domain, load_domain
from tether.agent.machine import Machine, pruned

PI = Machine(memory_mb=4000, camera=True, fp16=False, gpu=False)


def test_the_preferred_way_is_taken_where_the_machine_has_what_it_needs(domain: Domain) -> None:
    choice = pruned(domain, PI)
    assert choice.ways["pick"] == "student"
    assert choice.dropped == {}


def test_too_little_memory_leaves_the_smaller_way_and_says_why(domain: Domain) -> None:
    choice = pruned(domain, Machine(memory_mb=300, camera=True, fp16=False, gpu=False))
    assert choice.ways["pick"] == "direct"
    assert choice.dropped["pick/student"] == ("memory: 300 MB free, needs 400 MB",)


def test_half_precision_is_not_planned_for_a_cpu(folder: Path, edit) -> None:
    edit(
        "skills/pick.yaml", "needs: {memory_mb: 400, camera: true}", "needs: {memory_mb: 400, camera: true, fp16: true}"
    )
    choice = pruned(load_domain(folder), PI)
    assert choice.ways["pick"] == "direct"
    assert choice.dropped["pick/student"] == ("fp16: none, needs one",)


def test_without_a_camera_skills_that_look_have_no_way_left(domain: Domain) -> None:
    choice = pruned(domain, Machine(memory_mb=4000, camera=False, fp16=False, gpu=False))
    assert "find" in choice.without(domain)
    assert "carry" not in choice.without(domain)


def test_this_machine_can_be_asked() -> None:
    here = Machine.here(camera=False)
    assert here.memory_mb > 0
    assert here.fp16 is here.gpu
