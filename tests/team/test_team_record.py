"""The record of a step: taken once, whoever comes; and what is told of hand-overs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tether.agent.calls import Fact, Outcome, Status
from tether.cli import main
from tether.errors import InvalidInputError
from tether.memory.redis_server import RedisServer, connect
from tether.memory.working import Action, WorkingMemory
from tether.team import record
from tether.team.crew import as_text, figures
from tether.team.executor import StepTrace

MS = 1_000_000


def test_a_step_is_taken_once_by_whoever_comes_first_also_where_that_is_the_coordinator(
    redis_server: RedisServer,
) -> None:
    memory = WorkingMemory(connect(redis_server.url), "t")
    record.give(memory, Action("t/1-pick", "pick", {}, "arm", 7, 2, 5, 3), 5, (Fact("seen", True, 4, "camera"),))
    (given,) = memory.changes()
    assert given.action == Action("t/1-pick", "pick", {}, "arm", 7, 2, 5, 3)
    assert record.taken([given], "t/1-pick") is None
    assert record.take(memory, "t/1-pick", "arm", "arm-1", 5, 100)
    assert record.take(memory, "t/1-pick", "arm", "arm-1", 5, 100)
    assert not record.take(memory, "t/1-pick", "arm", "arm-2", 5, 200)
    assert not record.take(memory, "t/1-pick", "coordinator", "coordinator-9", 5, 300)
    assert record.taken(memory.changes(), "t/1-pick") == record.TakenBy("arm", "arm-1", 100)
    assert len(memory.changes()) == 2


def test_an_outcome_comes_back_from_the_record_with_its_facts(redis_server: RedisServer) -> None:
    memory = WorkingMemory(connect(redis_server.url), "t")
    outcome = Outcome("t/1-pick", Status.FAILED, "missed", (Fact("closed_empty", True, 9, "joints"),))
    assert record.ended(memory.changes(), "t/1-pick") is None
    record.end(memory, "arm", 9, outcome)
    found = record.ended(memory.changes(), "t/1-pick")
    assert found is not None
    assert found[0] == outcome


def step(agent: str, given_ms: int, taken_ms: int | None, *, waited: bool = False) -> StepTrace:
    times = [None if taken_ms is None else (taken_ms + more) * MS for more in (0, 500, 510)]
    return StepTrace(f"t/{given_ms}", "s", agent, 1, given_ms * MS, waited, *times, status="done")


def test_hand_overs_are_told_apart_by_who_gave_and_whether_the_taker_had_to_be_started_anew() -> None:
    steps = [step("perception", 0, 10), step("base", 520, 540), step("base", 1060, 1070), step("arm", 2000, None)]
    steps += [step("arm", 3000, 3010), step("base", 3530, 6510, waited=True)]
    happenings = [{"agent": "base", "pid": 1, "what": "started anew", "at_s": 1.0}]
    told = figures([{"steps": [asdict(one) for one in steps], "happenings": happenings}])
    assert told["steps"] == {"perception": 1, "base": 3, "arm": 2}
    assert told["restarts"] == 1
    times = told["handover_ms"]
    assert (times["agent_to_agent"]["n"], times["agent_to_agent"]["max"]) == (1, pytest.approx(30.0))
    assert (times["after_restart"]["n"], times["after_restart"]["at_or_above_200"]) == (1, 1)
    assert (times["given"]["n"], times["given"]["max"]) == (4, pytest.approx(20.0))
    assert times["returned"]["p50"] == pytest.approx(10.0)


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"record": [{}]}), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="a record of a task"):
        as_text(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agents", "arm", "--graph", "--realtime"], "--agents: found --realtime"),
        (["--agents", "arm", "--script"], "--agents: found --script"),
        (["--mishap", "agent_killed"], "agent_killed without --agents"),
        (["--agents", "arm"], "no skill of arm"),
        (["--agents", "arm,legs"], "legs"),
    ],
)
def test_agents_that_do_not_go_together_with_the_rest_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", "run", "fetch", "--policy", "classic", *words]) == 2
    assert message in capsys.readouterr().err
