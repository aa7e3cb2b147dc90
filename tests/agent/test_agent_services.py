"""The agent as the gateway sees it: a catalogue that proves what is registered, plans, and a robot that is called."""

from __future__ import annotations

import time

import pytest

from tether.agent.calls import Call, Status
from tether.agent.domain import Domain
from tether.agent.services import DomainCatalogue, SimulatedAgent
from tether.errors import InvalidInputError

WAIT = """
name: wait_for_cube
version: 1
doc: Stand still until the cube is seen.
parameters: []
precondition: [{precondition}]
effect: [seen]
primitives: [hold]
ways:
  direct: {{entry: 'tether.agent.bodies:stand', needs: {{memory_mb: 120, camera: true}}}}
failures:
  stalled: {{when: [], recovery: [operator], doc: it never comes}}
mean_s: 1.0
limit_s: 3.0
"""


def test_what_is_registered_is_proved_first(domain: Domain) -> None:
    catalogue = DomainCatalogue(domain)
    with pytest.raises(InvalidInputError, match="contradicts itself"):
        catalogue.register(WAIT.format(precondition="camera_ok, gripper_open, holding"))
    assert "wait_for_cube" not in {skill.name for skill in catalogue.skills()}
    assert catalogue.register(WAIT.format(precondition="camera_ok")).name == "wait_for_cube"
    assert "wait_for_cube" in {skill.name for skill in catalogue.skills()}
    with pytest.raises(InvalidInputError, match="above 1, which is registered"):
        catalogue.register(WAIT.format(precondition="camera_ok"))


def test_where_signatures_are_asked_for_a_text_is_not_registered(domain: Domain, monkeypatch) -> None:
    monkeypatch.setenv("TETHER_TRUST", "signed")
    with pytest.raises(InvalidInputError, match="without a signature"):
        DomainCatalogue(domain).register(WAIT.format(precondition="camera_ok"))


def test_plans_begin_with_the_facts_that_are_given(domain: Domain) -> None:
    catalogue = DomainCatalogue(domain)

    def plan(**facts: bool) -> list[str]:
        return [step.skill for step in catalogue.plan("fetch", facts)]

    assert plan(camera_ok=True, gripper_open=True) == ["find", "approach", "pick", "carry", "place"]
    assert plan(holding=True, lifted=True) == ["carry", "place"]
    assert plan(placed=True) == []
    assert plan()[:1] == ["release"] or "await_camera" in plan()
    with pytest.raises(InvalidInputError, match="'dance'"):
        catalogue.plan("dance", {})


def test_a_simulated_robot_runs_skills_and_tasks_by_name_and_each_call_once(domain: Domain) -> None:
    agent = SimulatedAgent(domain, policy="classic")
    later_ns = time.monotonic_ns() + 600 * 10**9
    said = []

    def execute(call_id: str, skill: str, deadline_ns: int = later_ns):
        return agent.execute(Call(call_id, "t", skill, {}, deadline_ns), said.append, lambda: False)

    try:
        refused = execute("a", "carry")
        assert refused.status is Status.FAILED
        assert refused.failure is not None
        assert refused.failure.startswith("refused: holding")
        found = execute("b", "find")
        assert found.status is Status.DONE
        assert execute("b", "find") is found
        assert execute("c", "approach", 0).failure == "deadline"
        assert execute("d", "take").status is Status.DONE
        assert said[-1].step == "pick"
        with pytest.raises(InvalidInputError, match="'dance'"):
            execute("e", "dance")
    finally:
        agent.close()
