"""A task's deadline from end to end: watched in every phase, told in the run's graph, its request and the figures."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fact_robot import FactRobot

from tether.agent import cli
from tether.agent.calls import Status
from tether.agent.domain import Domain
from tether.agent.evaluation import Ran, save_run, summary, timeliness_of
from tether.agent.graph import RunGraph
from tether.agent.proof import refusals
from tether.agent.running import TaskRun, TaskRunner

DECISION_S = 0.05


def ways(domain: Domain) -> dict[str, str]:
    return {name: next(iter(skill.ways)) for name, skill in domain.skills.items()}


def with_deadline(domain: Domain, deadline_s: float) -> Domain:
    return replace(domain, tasks={**domain.tasks, "fetch": replace(domain.tasks["fetch"], deadline_s=deadline_s)})


def fetched(domain: Domain, robot: FactRobot) -> TaskRun:
    return TaskRunner(domain, robot, ways(domain)).run("fetch", "t", {})


def test_a_task_that_is_done_in_time_says_its_slack(domain) -> None:
    robot = FactRobot(domain)
    begun_ns = robot.now_ns()
    run = fetched(domain, robot)
    kept = run.graph.timeliness
    assert run.outcome.status is Status.DONE
    assert kept is not None
    assert kept.in_time is True
    assert kept.took_s == pytest.approx((robot.now_ns() - begun_ns) * 1e-9)
    assert kept.slack_s == pytest.approx(60.0 - kept.took_s)


def test_a_task_past_its_deadline_ends_by_that_name_within_a_decision_and_asks_a_person(domain) -> None:
    robot = FactRobot(domain, {"carry": [None]})
    run = fetched(with_deadline(domain, 1.0), robot)
    kept = run.graph.timeliness
    assert (run.outcome.status, run.outcome.failure) == (Status.FAILED, "needs_operator: deadline")
    assert kept is not None
    assert kept.in_time is False
    assert -DECISION_S <= kept.slack_s <= 0.0
    assert robot.killed == ["carry"]
    assert run.request is not None
    assert run.request.detail.startswith("1 s are over in carry; the goal lacks placed")
    assert run.request.options[0] == "retry the task"
    assert run.request.options[-1] == "abandon the task"


def test_a_goal_that_is_reached_too_late_is_missed_and_offered_to_a_person_as_it_is(domain) -> None:
    run = fetched(with_deadline(domain, 1.0), FactRobot(domain))
    assert run.outcome.failure == "needs_operator: deadline"
    assert run.request is not None
    assert run.request.detail == "1 s are over in place; the goal holds"
    assert run.request.options[0] == "accept it as it is"


def test_a_task_that_asks_a_person_with_time_left_has_neither_met_nor_missed_it(domain) -> None:
    run = fetched(domain, FactRobot(domain, {"find": [["camera_ok", "seen", "not reachable"]]}))
    kept = run.graph.timeliness
    assert kept is not None
    assert kept.in_time is None
    assert kept.slack_s > 59.0


def test_a_steady_clock_ends_a_task_whose_world_has_all_but_stopped(domain) -> None:
    robot = FactRobot(domain, {"find": [None]})
    steady_ns = iter(range(0, 10**15, 10_000_000_000))
    run = TaskRunner(domain, robot, ways(domain), clock_ns=lambda: next(steady_ns)).run("fetch", "t", {})
    assert run.outcome.failure == "needs_operator: deadline"
    assert robot.now_ns() < 2_000_000_000
    assert run.graph.edges[-1].failure == "deadline"


def test_a_start_that_is_awaited_counts_against_the_deadline(domain) -> None:
    robot = FactRobot(domain)
    robot.know("not camera_ok")
    runner = TaskRunner(with_deadline(domain, 1.0), robot, ways(domain), settle_ns=5_000_000_000)
    run = runner.run("fetch", "t", {})
    assert run.outcome.failure == "needs_operator: deadline"
    assert robot.now_ns() == 2_000_000_000
    assert robot.started == []


def test_a_task_that_is_cancelled_is_no_deadline_missed(domain) -> None:
    asked = iter(range(100))
    run = TaskRunner(domain, FactRobot(domain), ways(domain)).run("fetch", "t", {}, cancelled=lambda: next(asked) > 4)
    assert run.outcome.status is Status.CANCELLED
    assert run.graph.timeliness is not None
    assert run.graph.timeliness.in_time is None


def test_a_deadline_that_its_steps_exceed_by_their_means_is_refused(domain) -> None:
    steps = domain.flattened(domain.tasks["fetch"], domain.tasks["fetch"].methods["from_floor"])
    mean_s = sum(domain.skills[step].mean_s for step in steps)
    (refused,) = refusals(with_deadline(domain, mean_s - 0.1))
    assert (refused.name, refused.rule) == ("fetch", "method from_floor fits into the deadline")
    assert refusals(with_deadline(domain, mean_s + 0.1)) == ()


def test_run_and_request_are_kept_with_state_picture_options_and_deadline(domain, tmp_path: Path, capsys) -> None:
    robot = FactRobot(domain)
    robot.picture = lambda: np.zeros((4, 6, 3), np.uint8)
    run = fetched(with_deadline(domain, 1.0), robot)
    save_run(tmp_path, run.graph, run.request, robot)
    request = json.loads((tmp_path / "request.json").read_text())
    assert request["reason"] == "deadline"
    assert request["facts"]["robot_ok"] is True
    assert request["deadline"]["in_time"] is False
    assert (tmp_path / request["picture"]).read_bytes().startswith(b"\x89PNG")
    assert RunGraph.read(tmp_path / "graph.json").timeliness == run.graph.timeliness
    assert cli._trace(argparse.Namespace(graph=tmp_path, task_id=None, dot=None)) == 0
    assert "deadline 1 s: missed after 1.00 s" in capsys.readouterr().out


def test_a_run_that_was_kept_before_deadlines_were_told_is_read(domain, tmp_path: Path) -> None:
    run = fetched(domain, FactRobot(domain))
    record = run.graph.record()
    del record["timeliness"]
    (tmp_path / "graph.json").write_text(json.dumps(record))
    assert RunGraph.read(tmp_path / "graph.json").timeliness is None


def test_figures_count_deadlines_met_and_missed_and_show_the_slack(domain, capsys) -> None:
    def ran(domain: Domain, robot: FactRobot) -> Ran:
        run = fetched(domain, robot)
        done = run.outcome.status is Status.DONE
        status, failure = run.outcome.status.value, run.outcome.failure
        return Ran(0, "none", done, done, status, failure, run.retries, 1.0, (), **timeliness_of(run.graph))

    met = ran(domain, FactRobot(domain))
    missed = ran(with_deadline(domain, 1.0), FactRobot(domain))
    asked = ran(domain, FactRobot(domain, {"find": [["camera_ok", "seen", "not reachable"]]}))
    script = Ran(0, "none", True, True, "done", None, 0, 1.0, ())
    figures = summary([met, missed, asked, script])
    assert figures["deadlines"] == {
        "met": 1,
        "missed": 1,
        "ended_otherwise": 1,
        "slack_min_s": met.slack_s,
        "slack_p50_s": met.slack_s,
    }
    cli._say_summary(figures)
    assert "deadline met 1, missed 1, ended otherwise before it 1; slack" in capsys.readouterr().out
