"""Circuit breakers of the reasoning graph's edges: opened, avoided, tried again, and a person in place of a loop."""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fact_robot import LOST, FactRobot

from tether.agent import cli
from tether.agent.calls import Status
from tether.agent.declaration import EdgeRules, TaskSkill
from tether.agent.domain import Domain
from tether.agent.edges import BreakerState, EdgeBreakers
from tether.agent.graph import RunGraph
from tether.agent.running import NEEDS_OPERATOR, TaskRun, TaskRunner

MISSED: list[object] = ["closed_empty"]
ABOVE = {"gripper_open": True, "above": True}


def with_skills(domain: Domain, skills: Mapping[str, TaskSkill]) -> Domain:
    return replace(domain, skills={**domain.skills, **skills})


def tireless(domain: Domain) -> Domain:
    """pick is retried as often as it fails."""
    return with_skills(domain, {"pick": replace(domain.skills["pick"], retries=100)})


def runner_of(domain: Domain, robot: FactRobot) -> TaskRunner:
    return TaskRunner(domain, robot, {name: next(iter(skill.ways)) for name, skill in domain.skills.items()})


def again(runner: TaskRunner, robot: FactRobot, task_id: str) -> TaskRun:
    """A run from the declared start, whatever the last one left behind."""
    robot.know("not lifted", "gripper_open", "not placed")
    return runner.run("fetch", task_id, {})


def events(run: TaskRun) -> list[tuple[str, str, int]]:
    return [(event.skill, event.event, event.failures) for event in run.graph.breakers]


def test_an_edge_opens_is_half_open_after_its_time_and_closes_with_a_success(domain) -> None:
    now_ns = 0
    breakers = EdgeBreakers(EdgeRules(failures=2, runs=10, cool_s=5.0), lambda: now_ns)
    pick = domain.skills["pick"]
    breakers.begin_run()
    assert not breakers.failed(pick, ABOVE)
    assert breakers.state(pick, ABOVE) is BreakerState.CLOSED
    assert breakers.failed(pick, ABOVE)
    assert breakers.is_open(pick, ABOVE)
    now_ns = 4_999_999_999
    assert breakers.is_open(pick, ABOVE)
    now_ns = 5_000_000_000
    assert breakers.state(pick, ABOVE) is BreakerState.HALF_OPEN
    assert breakers.failed(pick, ABOVE), "one failed trial opens it anew"
    assert breakers.half_open_in_s(pick, ABOVE) == 5.0
    now_ns = 10_000_000_000
    assert breakers.worked(pick, ABOVE)
    assert breakers.state(pick, ABOVE) is BreakerState.CLOSED
    assert breakers.failures(pick, ABOVE) == 0


def test_failures_of_runs_long_ago_do_not_count(domain) -> None:
    breakers = EdgeBreakers(EdgeRules(failures=2, runs=3, cool_s=5.0), lambda: 0)
    pick = domain.skills["pick"]
    for _ in range(5):
        breakers.begin_run()
        assert not breakers.failed(pick, ABOVE)
        breakers.begin_run()
        breakers.begin_run()
    assert breakers.failed(pick, ABOVE)


def test_an_edge_is_told_by_what_its_skill_speaks_of_and_by_nothing_else(domain) -> None:
    breakers = EdgeBreakers(EdgeRules(failures=1), lambda: 0)
    pick = domain.skills["pick"]
    breakers.failed(pick, ABOVE)
    assert breakers.is_open(pick, {**ABOVE, "placed": False})
    assert not breakers.is_open(pick, {**ABOVE, "holding": False})
    assert not breakers.is_open(domain.skills["approach"], ABOVE)


def test_a_skill_that_may_be_retried_without_end_is_handed_over_once_its_edge_is_open(domain, tmp_path, capsys) -> None:
    robot = FactRobot(domain, {"pick": [MISSED] * 200})
    run = runner_of(tireless(domain), robot).run("fetch", "t", {})
    assert run.outcome.failure == f"{NEEDS_OPERATOR}: edge_open"
    assert robot.started.count("pick") == domain.spec.edges.failures
    assert events(run) == [("pick", "opened", 4), ("pick", "avoided", 4)]
    assert run.request is not None
    assert run.request.detail.startswith("pick from [above, camera_ok, not closed_empty, gripper_open")
    assert "it may be tried again in" in run.request.detail
    run.graph.save(tmp_path / "graph.json")
    assert RunGraph.read(tmp_path / "graph.json").breakers == run.graph.breakers
    assert cli._trace(argparse.Namespace(graph=tmp_path, task_id=None, dot=None)) == 0
    assert "opened (4 failures)" in capsys.readouterr().out


def test_a_plan_goes_around_an_open_edge_where_another_skill_leads_there(domain) -> None:
    scoop = replace(domain.skills["pick"], name="scoop", mean_s=2.0)
    robot = FactRobot(domain, {"pick": [MISSED] * 200})
    run = runner_of(with_skills(tireless(domain), {"scoop": scoop}), robot).run("fetch", "t", {})
    assert run.outcome.status is Status.DONE
    assert robot.started.count("pick") == domain.spec.edges.failures
    assert robot.started[-3:] == ["scoop", "carry", "place"]
    assert run.graph.edges[-1].why == "around pick, whose edge is open"


def test_an_open_edge_is_not_gone_in_the_next_run_and_tried_once_after_its_time(domain) -> None:
    robot = FactRobot(domain, {"pick": [MISSED] * 5})
    runner = runner_of(domain, robot)
    assert again(runner, robot, "a").outcome.failure == f"{NEEDS_OPERATOR}: missed"
    tried = robot.started.count("pick")
    barred = again(runner, robot, "b")
    assert barred.outcome.failure == f"{NEEDS_OPERATOR}: edge_open"
    assert robot.started.count("pick") == tried
    robot._now_ns += round(domain.spec.edges.cool_s * 1e9)
    failed = again(runner, robot, "c")
    assert failed.outcome.failure == f"{NEEDS_OPERATOR}: edge_open"
    assert events(failed) == [("pick", "trial", 4), ("pick", "opened", 5), ("pick", "avoided", 5)]
    assert robot.started.count("pick") == tried + 1
    robot._now_ns += round(domain.spec.edges.cool_s * 1e9)
    worked = again(runner, robot, "d")
    assert worked.outcome.status is Status.DONE
    assert events(worked) == [("pick", "trial", 5), ("pick", "closed", 5)]


def test_failures_add_up_across_runs(domain) -> None:
    once = with_skills(domain, {"pick": replace(domain.skills["pick"], retries=0)})
    robot = FactRobot(once, {"pick": [MISSED] * 20})
    runner = runner_of(once, robot)
    ended = [again(runner, robot, str(number)).outcome.failure for number in range(5)]
    assert ended == [f"{NEEDS_OPERATOR}: missed"] * 4 + [f"{NEEDS_OPERATOR}: edge_open"]


@pytest.mark.parametrize(
    ("skill", "happening", "failure"),
    [("find", ["camera_ok", "seen", "not reachable"], "out_of_reach"), ("approach", ["not robot_ok"], "gate_holds")],
)
def test_what_a_person_or_the_gate_ended_is_no_failure_of_an_edge(domain, skill, happening, failure) -> None:
    robot = FactRobot(domain, {skill: [happening] * 10})
    runner = runner_of(domain, robot)
    for number in range(8):
        robot.know("robot_ok", "not seen", "not above")
        run = again(runner, robot, str(number))
        assert run.outcome.failure == f"{NEEDS_OPERATOR}: {failure}"
        assert run.graph.breakers == []


def test_no_sequence_of_random_failures_on_one_robot_ends_in_a_loop_or_an_unnamed_error(domain) -> None:
    rng = random.Random(0)
    tired = with_skills(domain, {n: replace(s, retries=100) for n, s in domain.skills.items()})
    happens = {}
    for name, skill in tired.skills.items():
        modes = [list(mode.when) or None for mode in skill.failures.values()]
        happens[name] = [
            rng.choice([*modes, LOST, LOST + "!"]) if rng.random() < 0.7 else list(skill.effect) for _ in range(2000)
        ]
    robot = FactRobot(tired, happens)
    runner = runner_of(tired, robot)
    seen = set()
    for number in range(60):
        begun = len(robot.started)
        run = again(runner, robot, str(number))
        assert run.outcome.status is Status.DONE or run.outcome.failure.startswith(NEEDS_OPERATOR)
        assert len(robot.started) - begun < 200
        seen.add(run.outcome.failure)
    assert f"{NEEDS_OPERATOR}: edge_open" in seen


def test_a_run_that_was_kept_before_there_were_breakers_is_read(domain, tmp_path: Path) -> None:
    import json

    record = runner_of(domain, FactRobot(domain)).run("fetch", "t", {}).graph.record()
    del record["breakers"]
    (tmp_path / "graph.json").write_text(json.dumps(record))
    assert RunGraph.read(tmp_path / "graph.json").breakers == []
