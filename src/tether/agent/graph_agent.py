"""The agent's own thread behind a live graph: a task an episode, or calls from outside as they come."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.agent.calls import Call, Feedback, Outcome, Status
from tether.agent.desk import CallDesk, world_ended
from tether.agent.domain import Domain
from tether.agent.edges import EdgeBreakers
from tether.agent.evaluation import save_run, skills_of, timeliness_of
from tether.agent.execution import SkillExecutor
from tether.agent.experience import Experience
from tether.agent.graph_robot import ClosedError, EpisodeBegun, GraphRobot
from tether.agent.observing import place_of
from tether.agent.robot import WorldEndedError
from tether.agent.running import SETTLE_NS, TaskRunner
from tether.agent.script import run_script
from tether.errors import Fault, InvalidInputError
from tether.journal import read_lines

if TYPE_CHECKING:
    from tether.team.crew import Team

SETTLE_DECISIONS = 20
"""After an episode has begun, until sensors have come."""
LIVE_SETTLE_NS = 5_000_000_000
"""Real time: how long the declared start of a task may take to be seen; the gate arms once all sensors have come."""


@dataclass(frozen=True)
class Errand:
    """What is done in each episode. script: the fixed script in the agent's place. runs: folder that takes each run's
    graph, and the request where a person is needed; results: file that takes a line of JSON an episode."""

    task: str
    script: bool
    runs: Path | None
    results: Path | None


class TaskLoop:
    """Runs the errand's task once in each episode."""

    def __init__(
        self,
        robot: GraphRobot,
        domain: Domain,
        ways: Mapping[str, str],
        errand: Errand,
        memory: Experience | None = None,
        team: Team | None = None,
    ) -> None:
        """team: does the steps, where it is not one agent."""
        if errand.task not in domain.tasks:
            known = ", ".join(domain.tasks)
            raise InvalidInputError("agent", [Fault("task", repr(errand.task), f"one of {known}")])
        self._robot, self._domain, self._ways, self._errand = robot, domain, ways, errand
        self._memory, self._team = memory, team
        self._values = {p.name: p.default for p in domain.tasks[errand.task].parameters}

    def run(self) -> None:
        """Until the robot is closed."""
        try:
            while True:
                begun = self._robot.await_episode(place_of(self._values))
                self._robot.over(self._episode(begun))
        except (ClosedError, WorldEndedError):
            return

    def _episode(self, begun: EpisodeBegun) -> Outcome:
        robot, errand = self._robot, self._errand
        task_id = f"{errand.task}-{begun.seed}"
        record: dict[str, Any] = {"retries": 0, "skills": (), "decisions": 0, "recalled": None, "deadline": {}}
        if errand.script:
            outcome = run_script(self._domain, robot, self._ways, errand.task, task_id)
        else:
            team = self._team
            executor = None if team is None else team.executor(robot, task_id, begun.seed, robot)
            runner = runner_of(robot, self._domain, self._ways, memory=self._memory, executor=executor)
            run = runner.run(errand.task, task_id, {})
            outcome = run.outcome
            record = {"retries": run.retries, "skills": skills_of(run.graph), "decisions": run.decisions}
            record |= {"deadline": timeliness_of(run.graph)}
            record |= {"recalled": None if run.recalled is None else run.recalled.sha256}
            folder = None if errand.runs is None else errand.runs / task_id
            if folder is not None:
                save_run(folder, run.graph, run.request, robot)
            if team is not None and executor is not None:
                record["team"] = team.told(executor, folder)
        if errand.results is not None:
            record |= {"seed": begun.seed, "task_id": task_id, "status": outcome.status.value}
            record |= {"failure": outcome.failure, "duration_s": (robot.now_ns() - begun.start_ns) * 1e-9}
            with errand.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        return outcome


@dataclass(frozen=True)
class _Job:
    call: Call
    on_feedback: Callable[[Feedback], None]
    cancelled: Callable[[], bool]
    outcome: Future[Outcome]


class CallLoop:
    """Runs calls from outside, one at a time; between them the robot holds. See `tether.agent.calls.Executor`."""

    def __init__(self, robot: GraphRobot, domain: Domain, ways: Mapping[str, str]) -> None:
        self._robot, self._domain, self._ways = robot, domain, ways
        self._desk = CallDesk(domain)
        self._jobs: queue.Queue[_Job] = queue.Queue()
        self._breakers = EdgeBreakers(domain.spec.edges, time.monotonic_ns)
        self._runner: TaskRunner | None = None
        self._closed = False

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """See `Executor.execute`. A call that waits when the agent ends is cancelled; one that runs, too."""
        self._desk.require_known(call)
        job = _Job(call, on_feedback, cancelled, Future())
        self._jobs.put(job)
        if self._closed:
            self._refuse_waiting()
        return job.outcome.result()

    def run(self) -> None:
        """Until the robot is closed."""
        try:
            while True:
                self._robot.await_episode(place_of({}))
                self._runner = runner_of(self._robot, self._domain, self._ways, self._breakers)
                self._serve()
        except ClosedError:
            return
        finally:
            self._closed = True
            self._refuse_waiting()

    def _serve(self) -> None:
        """Until the episode is over."""
        try:
            for _ in range(SETTLE_DECISIONS):
                self._robot.advance()
            while True:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    self._robot.advance()
                    continue
                if world_ended(self._do(job)):
                    return
        except WorldEndedError:
            return

    def _do(self, job: _Job) -> Outcome:
        nothing = Outcome(job.call.call_id, Status.CANCELLED, "the agent has ended")
        if time.monotonic_ns() >= job.call.deadline_ns:
            nothing = Outcome(job.call.call_id, Status.TIMED_OUT, "its deadline was over before its turn came")
            job.outcome.set_result(nothing)
            return nothing
        try:
            outcome = self._desk.run(job.call, self._ready, job.on_feedback, job.cancelled)
        except InvalidInputError as error:
            job.outcome.set_exception(error)
            return nothing
        except ClosedError:
            job.outcome.set_result(nothing)
            raise
        job.outcome.set_result(outcome)
        return outcome

    def _ready(self) -> TaskRunner:
        if self._runner is None:
            raise AssertionError("made with the episode")
        return self._runner

    def _refuse_waiting(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            job.outcome.set_result(Outcome(job.call.call_id, Status.CANCELLED, "the agent has ended"))


def runner_of(
    robot: GraphRobot,
    domain: Domain,
    ways: Mapping[str, str],
    breakers: EdgeBreakers | None = None,
    memory: Experience | None = None,
    executor: SkillExecutor | None = None,
) -> TaskRunner:
    """In lockstep deadlines are of the world's time; in real time of a steady clock, which a slow world cannot stop."""
    clock_ns = robot.now_ns if robot.lockstep else time.monotonic_ns
    settle_ns = SETTLE_NS if robot.lockstep else LIVE_SETTLE_NS
    return TaskRunner(domain, robot, ways, memory, settle_ns, clock_ns, breakers, executor)


def read_records(path: Path) -> dict[int, dict[str, Any]]:
    """What a TaskLoop wrote, by seed; a line that is still being written is left."""
    return {record["seed"]: record for record in read_lines(path)} if path.exists() else {}
