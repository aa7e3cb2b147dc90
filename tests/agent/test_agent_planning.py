"""The second opinion: planners and validators of others on the same domain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.agent.domain import Domain, load_domain

pytest.importorskip("unified_planning", reason="the extra `agent` is not installed")
pytest.importorskip("up_aries", reason="the extra `agent` is not installed")

from tether.agent.planning import Planner


def test_aries_finds_the_shipped_decompositions_and_the_validator_has_no_objection(domain: Domain) -> None:
    planner = Planner(domain)
    assert planner.plan(domain.tasks["fetch"], "from_floor") == ("find", "approach", "pick", "carry", "place")
    assert planner.second_opinion() == {}


def test_the_validator_objects_to_a_recovery_that_leads_nowhere(folder: Path, edit) -> None:
    edit("skills/carry.yaml", "[release, await_camera, find, approach, pick], early", "[find, approach], early")
    objections = Planner(load_domain(folder)).second_opinion()
    assert list(objections) == ["carry: slipped"]


def test_exported_pddl_is_read_back_and_says_the_same(domain: Domain, tmp_path: Path) -> None:
    from unified_planning.io import PDDLReader

    paths = Planner(domain).export(tmp_path)
    assert {path.suffix for path in paths} == {".pddl", ".hddl"}
    for kind in ("pddl", "hddl"):
        read = PDDLReader().parse_problem(
            str(tmp_path / f"fetch.domain.{kind}"), str(tmp_path / f"fetch.problem.{kind}")
        )
        assert {action.name for action in read.actions} == set(domain.skills)
        assert {fluent.name for fluent in read.fluents} == set(domain.spec.facts)
