"""Agents in processes of their own that are killed, or stopped, in every phase of a step. Their robot is one of facts
alone, so that a test knows how often a skill was begun; processes, record and signals are real."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import psutil
import pytest
from crews import Crew, crew_of, direct_ways
from fact_robot import FactRobot

from tether.agent.calls import Call, Status
from tether.agent.declaration import TaskSkill
from tether.agent.running import NEEDS_OPERATOR, TaskRun, TaskRunner
from tether.memory.redis_server import RedisServer, connect
from tether.memory.working import WorkingMemory
from tether.team import record

SKILLS = ("find", "approach", "pick", "carry", "place")
AFTER = dict(pairwise(SKILLS))
pytestmark = pytest.mark.timeout(600)


class WatchedRobot(FactRobot):
    """Tells of each decision of a skill, the first being 1, and of its start, 0."""

    def __init__(self, crew: Crew, at: Callable[[str, int], None]) -> None:
        super().__init__(crew.domain)
        self._at = at

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        super().start(call, skill, way, step)
        self._at(skill.name, 0)

    def advance(self) -> None:
        super().advance()
        if self._skill is not None:
            self._at(self._skill.name, self._decisions)


def run(crew: Crew, robot: FactRobot, task_id: str = "t") -> tuple[TaskRun, list[dict[str, object]]]:
    executor = crew.executor(robot, task_id)
    runner = TaskRunner(crew.domain, robot, direct_ways(crew.domain), executor=executor)
    return runner.run("fetch", task_id, {}), record.lines(executor.memory.changes())


def kill(crew: Crew, skill: str, number: int = signal.SIGKILL) -> None:
    os.kill(crew.processes.pid(crew.processes.roster.owner(skill)), number)


def test_three_agents_fetch_by_the_record_and_each_step_has_its_agent(crew: Crew) -> None:
    robot = FactRobot(crew.domain)
    ended, lines = run(crew, robot)
    assert ended.outcome.status is Status.DONE
    assert robot.started == list(SKILLS)
    assert [edge.agent for edge in ended.graph.edges] == ["perception", "base", "arm", "base", "arm"]
    told = [(line["source"], str(line["change"]).rpartition("/")[2]) for line in lines]
    agents = [edge.agent for edge in ended.graph.edges]
    assert told == [pair for agent in agents for pair in (("coordinator", "given"), (agent, "taken"), (agent, "ended"))]


@pytest.mark.parametrize(("phase", "decision", "begun"), [("started", 0, 2), ("running", 2, 2), ("done", 3, 1)])
def test_each_agent_killed_in_each_of_its_steps_is_verified_by_sensors_before_its_skill_is_tried_again(
    crew: Crew, phase: str, decision: int, begun: int
) -> None:
    killed: set[str] = set()

    def at(skill: str, number: int) -> None:
        if number == decision and skill not in killed:
            killed.add(skill)
            kill(crew, skill)

    robot = WatchedRobot(crew, at)
    ended, lines = run(crew, robot, phase)
    assert ended.outcome.status is Status.DONE
    assert killed == set(SKILLS)
    assert Counter(robot.started) == dict.fromkeys(SKILLS, begun)
    first = [edge for edge in ended.graph.edges if edge.attempt == 1]
    assert all(edge.detail.startswith("outcome_unknown, agent_lost: ") for edge in first)
    assert {edge.failure for edge in first} == ({None} if begun == 1 else {"agent_lost"})
    assert len({line["change"] for line in lines}) == len(lines)


def test_agents_killed_between_their_steps_are_started_anew_and_each_skill_is_begun_once(crew: Crew) -> None:
    killed: set[str] = set()

    def at(skill: str, number: int) -> None:
        following = AFTER.get(skill)
        if number == 1 and following is not None and following not in killed:
            killed.add(following)
            kill(crew, following)

    robot = WatchedRobot(crew, at)
    ended, _ = run(crew, robot)
    assert ended.outcome.status is Status.DONE
    assert killed == set(SKILLS[1:])
    assert robot.started == list(SKILLS)


def test_a_step_that_nobody_had_taken_when_its_agent_died_goes_to_the_one_started_anew_and_is_begun_once(
    crew: Crew,
) -> None:
    timers: list[threading.Timer] = []

    def at(skill: str, number: int) -> None:
        following = AFTER.get(skill)
        if number == 1 and following is not None:
            pid = crew.processes.pid(crew.processes.roster.owner(following))
            os.kill(pid, signal.SIGSTOP)  # it cannot take what it is given
            timers.append(threading.Timer(1.5, os.kill, (pid, signal.SIGKILL)))
            timers[-1].start()

    robot = WatchedRobot(crew, at)
    ended, lines = run(crew, robot)
    for timer in timers:
        timer.join()
    assert ended.outcome.status is Status.DONE
    assert len(timers) == 4
    assert robot.started == list(SKILLS)
    assert [str(line["change"]).rpartition("/")[2] for line in lines] == ["given", "taken", "ended"] * 5


def test_an_agent_that_is_stopped_in_the_middle_is_offline_by_its_heartbeat_killed_and_its_step_verified(
    crew: Crew,
) -> None:
    stopped: list[int] = []

    def at(skill: str, number: int) -> None:
        if skill == "pick" and number == 2 and not stopped:
            stopped.append(crew.processes.pid("arm"))
            kill(crew, skill, signal.SIGSTOP)

    robot = WatchedRobot(crew, at)
    ended, _ = run(crew, robot)
    assert ended.outcome.status is Status.DONE
    assert Counter(robot.started)["pick"] == 2
    assert any("no heartbeat for 6 s" in happening.what for happening in crew.processes.happenings)
    assert not psutil.pid_exists(stopped[0])


def test_an_agent_that_dies_at_each_attempt_ends_with_a_person_and_not_in_a_loop(crew: Crew) -> None:
    robot = WatchedRobot(crew, lambda skill, number: kill(crew, skill) if (skill, number) == ("pick", 1) else None)
    ended, _ = run(crew, robot)
    assert ended.outcome.failure == f"{NEEDS_OPERATOR}: agent_lost"
    assert Counter(robot.started)["pick"] == 1 + crew.domain.skills["pick"].retries
    assert ended.request is not None
    assert "abandon the task" in ended.request.options


def test_an_agent_that_may_not_be_started_anew_is_offline_by_name_and_a_person_is_asked(
    redis_server: RedisServer,
) -> None:
    with crew_of(redis_server, redis_server.folder, restarts=0) as crew:
        robot = WatchedRobot(crew, lambda skill, number: kill(crew, skill) if (skill, number) == ("pick", 1) else None)
        ended, lines = run(crew, robot)
    assert ended.outcome.failure == f"{NEEDS_OPERATOR}: agent_offline"
    assert Counter(robot.started)["pick"] == 1
    withdrawn = [line for line in lines if str(line["change"]).endswith("/taken") and line["source"] == "coordinator"]
    assert len(withdrawn) == 1
    assert ended.request is not None
    assert "arm was started anew 0 times" in ended.request.detail


def test_what_an_agent_has_started_dies_with_it(crew: Crew) -> None:
    workers: list[psutil.Process] = []

    def at(skill: str, number: int) -> None:
        if skill == "find" and number == 1 and not workers:
            workers.extend(psutil.Process(crew.processes.pid("perception")).children(recursive=True))
            kill(crew, skill)

    run(crew, WatchedRobot(crew, at))
    assert workers
    psutil.wait_procs(workers, timeout=10)
    assert not any(worker.is_running() for worker in workers)


def test_the_record_loses_nothing_where_its_server_is_killed_in_the_middle(crew: Crew) -> None:
    pids: list[int | None] = []

    def at(skill: str, number: int) -> None:
        if number == 2:
            pids.append(crew.server.pid)
            os.kill(int(pids[-1] or 0), signal.SIGKILL)

    robot = WatchedRobot(crew, at)
    ended, lines = run(crew, robot)
    assert ended.outcome.status is Status.DONE
    assert robot.started == list(SKILLS)
    assert len(set(pids)) == 5
    assert [line["sequence"] for line in lines] == list(range(1, 16))


def test_a_record_that_is_gone_for_good_ends_with_a_person_and_not_in_an_error(crew: Crew) -> None:
    robot = WatchedRobot(crew, lambda skill, number: crew.server.close() if skill == "approach" else None)
    executor = crew.executor(robot, "g")
    executor.memory = WorkingMemory(connect(crew.server.url, patience_s=0.4), "g", deadline_s=1.0)
    runner = TaskRunner(crew.domain, robot, direct_ways(crew.domain), executor=executor)
    ended = runner.run("fetch", "g", {})
    assert (ended.outcome.failure or "").startswith(f"{NEEDS_OPERATOR}: agent_lost")
    assert all(step.status in ("done", "outcome_unknown") for step in executor.steps)


def test_a_cancelled_task_is_cancelled_in_the_agent_that_is_at_it(crew: Crew) -> None:
    robot = FactRobot(crew.domain)
    executor = crew.executor(robot, "c")
    runner = TaskRunner(crew.domain, robot, direct_ways(crew.domain), executor=executor)
    ended = runner.run("fetch", "c", {}, cancelled=lambda: "approach" in robot.started)
    assert ended.outcome.status is Status.CANCELLED
    assert robot.started == ["find", "approach"]


def test_heartbeats_are_gone_from_the_record_after_their_ttl(crew: Crew) -> None:
    run(crew, FactRobot(crew.domain))
    left_ms = [crew.client.pttl(record.BEAT_KEY + name) for name in ("perception", "base", "arm")]
    assert all(0 < left <= 12_000 for left in left_ms)
    turns = crew.client.get(record.BEAT_KEY + "arm")
    until_s = time.monotonic() + 30.0
    while crew.client.get(record.BEAT_KEY + "arm") == turns:
        assert time.monotonic() < until_s
        time.sleep(0.1)
