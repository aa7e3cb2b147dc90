"""Steps of a task handed to the agents that have the skills: the coordinator's side, which owns the robot.

A step is checked, given by the task's record, and the robot lent to whoever takes it, a decision at a time. Where the
agent's process dies, that very decision is a hold. What nobody had taken goes to the process that is started anew. What
was begun ends as `outcome_unknown`: sensors are asked for its effect before anybody may try again. Who asks the agent
for decisions may be a process of its own, as in a graph.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tether.agent.calls import Call, Feedback, Outcome, Status
from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain
from tether.agent.execution import AGENT_LOST, AGENT_OFFLINE, CANCELLED, SkillExecutor
from tether.agent.robot import Robot, WorldEndedError
from tether.errors import DeadlineError
from tether.memory.redis_server import Client
from tether.memory.working import Action, WorkingMemory
from tether.team import record
from tether.team.link import Link, LinkKind, LinkLostError, packed_facts
from tether.team.processes import OfflineError, Processes

SILENT_S = 120.0
"""Without a frame from an agent that has the robot: longer than a worker may take to start."""
_WAIT_S = 0.2


class Lender(Protocol):
    """Has the agent that is at it asked for decisions: the robot's policy, or what reaches it. See LinkedPolicy."""

    linked_pid: int
    """Process of the agent's worker."""

    @property
    def lost(self) -> str | None:
        """What became of the link by which decisions are asked for, None while it is well."""

    def lend(self, agent: str, pid: int, link: Link | None) -> None:
        """Ask this agent from its start on; None: nobody."""


@dataclass
class StepTrace:
    """One step that was handed over. Times of the steady clock, ns; None where it did not come to that.

    waited: its agent had to be started anew before it could take it.
    """

    call_id: str
    skill: str
    agent: str
    pid: int
    given_ns: int
    waited: bool
    taken_ns: int | None = None
    ended_ns: int | None = None
    returned_ns: int | None = None
    status: str = ""
    failure: str | None = None


class TeamExecutor(SkillExecutor):
    """See SkillExecutor, which checks, remembers and verifies; only the running of a call is an agent's.

    lender: None for a robot that makes no decisions of its own.
    """

    def __init__(
        self,
        domain: Domain,
        robot: Robot,
        ways: Mapping[str, str],
        processes: Processes,
        client: Client,
        task_id: str,
        lender: Lender | None = None,
    ) -> None:
        super().__init__(domain, robot, ways)
        self._processes, self._lender = processes, lender
        self.memory = WorkingMemory(client, task_id)
        self.steps: list[StepTrace] = []

    def agent_of(self, skill: str) -> str:
        """Which agent does a skill."""
        return self._processes.roster.owner(skill)

    def _run(
        self,
        call: Call,
        skill: TaskSkill,
        parameters: Mapping[str, float],
        on_feedback: Callable[[Feedback], None],
        cancelled: Callable[[], bool],
        step: tuple[int, int],
        attempt: int,
    ) -> Outcome:
        agent, facts = self.agent_of(skill.name), tuple(self._robot.facts.values())
        from redis.exceptions import RedisError

        self._processes.look()
        waited = self._processes.current(agent) is None
        trace = StepTrace(call.call_id, skill.name, agent, self._processes.pid(agent), time.monotonic_ns(), waited)
        self.steps.append(trace)
        whole = replace(call, parameters=parameters)
        lent = _Lent(self._robot, whole, skill, self._ways[skill.name], step, on_feedback, cancelled, attempt)
        action = Action(call.call_id, skill.name, parameters, agent, call.deadline_ns, *step, attempt)
        try:
            trace.given_ns = record.give(self.memory, action, self._robot.now_ns(), facts)
            outcome = self._lend(lent, trace)
        except (RedisError, DeadlineError) as error:
            self._robot.stop(kill=False)
            outcome = lent.outcome(Status.OUTCOME_UNKNOWN, f"{AGENT_LOST}: {agent}: its record: {error}")
        self._lend_to("", 0, None)
        trace.status, trace.failure, trace.returned_ns = outcome.status.value, outcome.failure, time.monotonic_ns()
        return outcome

    def _lend(self, lent: _Lent, trace: StepTrace) -> Outcome:
        """Serve the agent until the step has ended."""
        call_id, agent = lent.call.call_id, trace.agent
        link: Link | None = None
        while True:
            try:
                link = self._processes.link(agent)
                trace.pid = self._processes.pid(agent)
                self._lend_to(agent, trace.pid, link)
                if not self._serve(lent, agent, link):
                    return lent.outcome(Status.CANCELLED, CANCELLED)
                why = "put no outcome on record"
            except OfflineError as error:
                why = str(error)
                if self._withdrawn(lent):
                    return lent.outcome(Status.FAILED, f"{AGENT_OFFLINE}: {why}")
            except LinkLostError as error:
                why = str(error)
            changes = self.memory.changes()
            found, taken = record.ended(changes, call_id), record.taken(changes, call_id)
            trace.taken_ns = None if taken is None else taken.received_ns
            if found is not None:
                outcome, trace.ended_ns = found
                return outcome
            if link is not None:
                why = self._processes.drop(agent, link, why)
            if taken is not None:
                self._robot.stop(kill=False)
                return lent.outcome(Status.OUTCOME_UNKNOWN, f"{AGENT_LOST}: {agent}: {why}")
            trace.waited = True

    def _serve(self, lent: _Lent, agent: str, link: Link) -> bool:
        """Answer frames until the step has ended; False where it was taken back before it began.

        Raises LinkLostError.
        """
        until_s = time.monotonic() + SILENT_S
        while True:
            self._processes.look()
            if self._processes.current(agent) is not link:
                raise LinkLostError("its process is gone")
            try:
                kind, content = link.receive(_WAIT_S)
            except DeadlineError:
                if time.monotonic() > until_s:
                    raise LinkLostError(f"not a word for {SILENT_S:g} s") from None
                if not lent.started and lent.cancelled() and self._withdrawn(lent):
                    return False
                continue
            until_s = time.monotonic() + SILENT_S
            if kind is LinkKind.ENDED:
                return True
            lent.answer(link, kind, content, self._lender)

    def _lend_to(self, agent: str, pid: int, link: Link | None) -> None:
        if self._lender is not None:
            self._lender.lend(agent, pid, link)

    def _withdrawn(self, lent: _Lent) -> bool:
        """Whether nobody had taken the step, and now nobody will."""
        taker, call_id = f"{record.COORDINATOR}-{os.getpid()}", lent.call.call_id
        now_ns = self._robot.now_ns()
        return record.take(self.memory, call_id, record.COORDINATOR, taker, now_ns, time.monotonic_ns())


@dataclass
class _Lent:
    """The robot, lent for one step."""

    robot: Robot
    call: Call
    skill: TaskSkill
    way: str
    step: tuple[int, int]
    on_feedback: Callable[[Feedback], None]
    cancelled: Callable[[], bool]
    attempt: int
    started: bool = False
    begun_ns: int = 0

    def answer(self, link: Link, kind: LinkKind, content: bytes, lender: Lender | None) -> None:
        """Do what the agent asks for, and tell the facts. Raises LinkLostError."""
        ended = None
        if kind is LinkKind.START:
            fields = json.loads(content)
            if fields["call_id"] != self.call.call_id:
                raise LinkLostError(f"started {fields['call_id']}, which it was not given")
            self.started, self.begun_ns = True, self.robot.now_ns()
            if lender is not None:
                lender.linked_pid = fields["worker_pid"]
            self.robot.start(self.call, self.skill, self.way, self.step)
        elif kind is LinkKind.ADVANCE:
            try:
                self.robot.advance()
            except WorldEndedError as error:
                ended = str(error)
            if lender is not None and lender.lost is not None:
                raise LinkLostError(lender.lost)
            self._feed_back()
        elif kind is LinkKind.STOP:
            self.robot.stop(kill=json.loads(content)["kill"])
        else:
            raise LinkLostError(f"{kind.name} where START, ADVANCE or STOP was due")
        robot = self.robot
        facts, evidence, now_ns = packed_facts(robot.facts), dict(robot.evidence), robot.now_ns()
        told = {"facts": facts, "evidence": evidence, "now_ns": now_ns, "cancelled": self.cancelled(), "ended": ended}
        link.send_fields(LinkKind.FACTS, **told)

    def outcome(self, status: Status, failure: str) -> Outcome:
        """With the facts as they are."""
        return Outcome(self.call.call_id, status, failure, tuple(self.robot.facts.values()))

    def _feed_back(self) -> None:
        spent_s = (self.robot.now_ns() - self.begun_ns) * 1e-9
        progress = min(spent_s / self.skill.limit_s, 1.0)
        self.on_feedback(Feedback(self.call.call_id, self.skill.name, progress, self.attempt))
