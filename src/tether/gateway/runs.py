"""Whole tasks by the gateway: planned, run call by call under one task id, with the graph of the run and its outcome.

What a run was asked for, and the facts it began with, are in the journal before it begins. A gateway that is started
again goes on with the runs that had not ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from tether.agent.calls import Call, Fact, Value
from tether.agent.domain import Domain, parameters_of
from tether.agent.running import TaskRun, TaskRunner
from tether.errors import Fault, InvalidInputError, TetherError
from tether.gateway.called import CalledRobot, CalledSkills, ways_of
from tether.gateway.journal import GatewayJournal
from tether.gateway.records import Answer, CallRecord
from tether.gateway.services import Services, Step
from tether.memory.working import fact_fields, fact_from

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
RUNS_MAX = 8
"""At a time; one robot does one call at a time."""
_FACTS_S = 20.0
_AGAIN_S = 0.2


class EndingError(TetherError):
    """The gateway ends; the run goes on when it is started again."""


@dataclass(frozen=True)
class RunRequest:
    """What is asked for. deadline_s: end to end, the declared one or less. opened_ns: of the steady clock."""

    task_id: str
    task: str
    parameters: Mapping[str, float]
    facts: tuple[Fact, ...]
    source: str
    deadline_s: float
    opened_ns: int

    def packed(self) -> str:
        """For the journal."""
        return json.dumps({**asdict(self), "facts": [fact_fields(fact) for fact in self.facts]}, allow_nan=False)

    @staticmethod
    def unpacked(text: str) -> RunRequest:
        """What `packed` gave."""
        fields = json.loads(text)
        return RunRequest(**{**fields, "facts": tuple(fact_from(fact) for fact in fields["facts"])})


class TaskRuns:
    """The runs of one gateway. Used in its event loop; each run has a thread."""

    def __init__(self, journal: GatewayJournal, services: Services) -> None:
        self._journal, self._services = journal, services
        self._pool = ThreadPoolExecutor(RUNS_MAX, thread_name_prefix="run")
        self._cancels: dict[str, threading.Event] = {}
        self._ending = threading.Event()

    def domain(self) -> Domain:
        """Raises InvalidInputError where these services have none."""
        if self._services.domain is None:
            raise InvalidInputError("run", [Fault("services", "no domain of tasks", "services that run tasks")])
        return self._services.domain()

    async def facts(self, given: Mapping[str, Value] | None) -> tuple[Fact, ...]:
        """What is true now: as given, else as the sensors say. Raises InvalidInputError where nobody says."""
        if given is not None:
            return tuple(Fact(name, value, 0, "client") for name, value in given.items())
        if self._services.facts is None:
            fault = Fault("facts", "none, and no sensors that this gateway hears", "what is true now")
            raise InvalidInputError("run", [fault])
        found = await asyncio.to_thread(self._services.facts, _FACTS_S)
        if not found:
            raise InvalidInputError("run", [Fault("facts", "nothing comes from the sensors", "a graph that runs")])
        return found

    def plan(self, domain: Domain, request: RunRequest) -> list[dict[str, Any]]:
        """The steps from its facts to its goal, each with what it requires and achieves. Raises InvalidInputError."""
        parameters_of(domain.tasks[request.task].parameters, request.parameters, f"task {request.task}")
        facts = {fact.name: fact.value for fact in request.facts}
        return [_step(domain, step, request) for step in self._services.catalogue.plan(request.task, facts)]

    async def begin(self, request: RunRequest, plan: list[dict[str, Any]]) -> None:
        """Put it on record and run it, unless it is at work. Raises InvalidInputError where there are too many."""
        if request.task_id in self._cancels:
            return
        if len(self._cancels) >= RUNS_MAX:
            fault = Fault("runs", f"{len(self._cancels)} at work", f"fewer than {RUNS_MAX}")
            raise InvalidInputError("run", [fault], "wait until one has ended")
        self._cancels[request.task_id] = threading.Event()
        try:
            await self._journal.keep_run(request.task_id, request=request.packed(), plan=json.dumps(plan))
        except BaseException:
            del self._cancels[request.task_id]
            raise
        self._start(request)

    async def resume(self) -> None:
        """Go on with what had not ended."""
        for task_id in await self._journal.open_runs():
            fields = await self._journal.run(task_id)
            if fields is not None:
                self._start(RunRequest.unpacked(fields["request"]), cancelled="cancel" in fields)

    async def cancel(self, task_id: str) -> None:
        """End a run; one that is over stays as it is."""
        await self._journal.keep_run(task_id, cancel="1")
        if task_id in self._cancels:
            self._cancels[task_id].set()

    async def close(self) -> None:
        """Leave the runs as they are, to be gone on with."""
        self._ending.set()
        await asyncio.to_thread(self._pool.shutdown)

    def _start(self, request: RunRequest, *, cancelled: bool = False) -> None:
        cancel = self._cancels[request.task_id] = threading.Event()
        if cancelled:
            cancel.set()
        future = self._pool.submit(self._run, request, cancel, asyncio.get_running_loop())
        future.add_done_callback(lambda _: self._cancels.pop(request.task_id, None))

    def _run(self, request: RunRequest, cancel: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        taker = _Taker(self._journal, request, loop, self._ending)
        try:
            ended = _ended_fields(run_by_calls(self.domain(), request, taker, cancel.is_set))
        except EndingError:
            return
        except Exception as error:  # noqa: BLE001 - whatever ends a run ends it by name, on record
            _LOG.exception("run %s", request.task_id)
            ended = {"state": "failed", "failure": f"{type(error).__name__}: {error}", "request": None, "graph": None}
        try:
            taker.wait(lambda: self._journal.end_run(request.task_id, json.dumps(ended)))
            taker.wait(lambda: self._journal.close_task(request.task_id, request.source))
        except EndingError:
            _LOG.warning("run %s ended while the gateway ended; it is gone through once more", request.task_id)


def run_by_calls(domain: Domain, request: RunRequest, taker: _Taker, cancelled: Callable[[], bool]) -> TaskRun:
    """Run a task's state machine over calls. Raises EndingError, and InvalidInputError for parameters out of bounds."""
    task = replace(domain.tasks[request.task], deadline_s=request.deadline_s)
    bounded = replace(domain, tasks={**domain.tasks, request.task: task})
    robot = CalledRobot(request.facts)
    skills = CalledSkills(bounded, robot, taker)
    begins = [request.opened_ns]

    def clock_ns() -> int:
        """The deadline began when the run was opened, however often it is gone on with."""
        return begins.pop() if begins else time.monotonic_ns()

    runner = TaskRunner(bounded, robot, ways_of(bounded), clock_ns=clock_ns)
    runner.executor = skills
    over = lambda: cancelled() or skills.cancelled_outside  # noqa: E731
    return runner.run(request.task, request.task_id, request.parameters, cancelled=over)


class _Taker:
    """See `tether.gateway.called.CallTaker`: a run's thread talks to the journal, which lives in the event loop."""

    def __init__(
        self, journal: GatewayJournal, request: RunRequest, loop: asyncio.AbstractEventLoop, ending: threading.Event
    ) -> None:
        self._journal, self._request, self._loop, self._ending = journal, request, loop, ending

    def offer(self, call: Call) -> Answer:
        """See `CallTaker.offer`."""
        left_s = self._request.deadline_s - (time.monotonic_ns() - self._request.opened_ns) * 1e-9
        answer, _ = self.wait(
            lambda: self._journal.accept(
                call.call_id, call.task_id, call.skill, call.parameters, self._request.source, left_s
            )
        )
        return answer

    def ended(self, call_id: str, wait_s: float) -> CallRecord | None:
        """See `CallTaker.ended`."""
        record = self.wait(lambda: self._journal.call(call_id))
        if record is not None and record.is_final:
            return record
        self._ending.wait(wait_s)
        return None

    def cancel(self, call_id: str) -> None:
        """See `CallTaker.cancel`."""
        self.wait(lambda: self._journal.cancel(call_id, self._request.source))

    def wait(self, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Ask in the event loop until the journal answers. Raises EndingError once the gateway ends."""
        from redis.exceptions import RedisError

        while not self._ending.is_set():
            future = asyncio.run_coroutine_threadsafe(ask(), self._loop)
            try:
                return future.result()
            except RedisError as error:
                _LOG.warning("journal: %s; trying again", error)
                self._ending.wait(_AGAIN_S)
        raise EndingError("the gateway ends")


def run_fields(task_id: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """A run as JSON, from the journal's fields. graph: nodes, edges and outcome; null while it runs."""
    request = RunRequest.unpacked(fields["request"])
    ended = json.loads(fields["ended"]) if "ended" in fields else {"state": "running", "failure": None}
    return {
        "task_id": task_id,
        "task": request.task,
        "parameters": dict(request.parameters),
        "deadline_s": request.deadline_s,
        "plan": json.loads(fields["plan"]),
        **{name: ended.get(name) for name in ("state", "failure", "retries", "request", "graph", "graphviz")},
    }


def _ended_fields(run: TaskRun) -> dict[str, Any]:
    return {
        "state": run.outcome.status.value,
        "failure": run.outcome.failure,
        "retries": run.retries,
        "request": None if run.request is None else asdict(run.request),
        "graph": run.graph.record(),
        "graphviz": run.graph.dot(),
    }


def _step(domain: Domain, step: Step, request: RunRequest) -> dict[str, Any]:
    skill = domain.skills[step.skill]
    values = {name: request.parameters.get(name, value) for name, value in step.parameters.items()}
    requires, achieves = ([str(one) for one in condition] for condition in (skill.requires, skill.achieves))
    return {"skill": step.skill, "parameters": values, "requires": requires, "achieves": achieves}
