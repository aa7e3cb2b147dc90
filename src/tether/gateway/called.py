"""A task's skills as calls in the journal, behind the interfaces of the agent's own state machine.

The robot is what the outcomes of calls say of it. Calls have ids by their number in the run, so a run that is begun
again after its gateway was killed finds the calls it had made, gets their outcomes, and goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tether.agent.calls import Call, Fact, Feedback, Outcome, Status
from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain, parameters_of
from tether.agent.execution import (
    CANCELLED,
    DEADLINE,
    GATE_HOLDS,
    REFUSED,
    WORKER_LOST,
    WORLD_ENDED,
    SkillExecutor,
)
from tether.agent.facts import Facts
from tether.agent.robot import WorldEndedError
from tether.contracts import DECISION_NS, U8
from tether.gateway.records import Answer, CallRecord

_AGAIN_S = 0.2
_AGENT = "agent"
"""The way of each skill: the executor's own choice."""


class CallTaker(Protocol):
    """The journal as a run's thread sees it. Methods wait while the journal is gone."""

    def offer(self, call: Call) -> Answer:
        """Offer a call; the same one again is KNOWN."""

    def ended(self, call_id: str, wait_s: float) -> CallRecord | None:
        """The call once it is final; None while it is not."""

    def cancel(self, call_id: str) -> None:
        """Cancel a call."""


class CalledRobot:
    """See `tether.agent.robot.Robot`. Its facts are those that the newest outcomes tell; waiting makes them older."""

    fault: str | None = None

    def __init__(self, facts: Iterable[Fact]) -> None:
        """facts: what is true when the run begins."""
        self.evidence: Mapping[str, float] = {}
        self._facts: dict[str, Fact] = {}
        self._now_ns = 0
        self.take(facts)

    @property
    def facts(self) -> Facts:
        """By name."""
        return self._facts

    def take(self, facts: Iterable[Fact]) -> None:
        """What an outcome says. Its stamps may be of another world than the last one's: the newest is now."""
        told = {fact.name: fact for fact in facts}
        self._facts.update(told)
        if told:
            self._now_ns = max(fact.stamp_ns for fact in told.values())

    def now_ns(self) -> int:
        """The clock of the facts' stamps."""
        return self._now_ns

    def advance(self) -> None:
        """Facts grow older by a decision."""
        self._now_ns += DECISION_NS

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        """Never called: skills are started by whoever takes the calls."""
        raise AssertionError("started by whoever takes the calls")

    def stop(self, *, kill: bool) -> None:
        """Nothing runs between calls."""

    def judged(self) -> Mapping[str, bool]:
        """Nobody judges."""
        return {}

    def picture(self) -> U8 | None:
        """A picture is the agent's to give."""
        return None


class CalledSkills(SkillExecutor):
    """Skills by calls. See `SkillExecutor`; its checks, time limits and ways are made where the call is run."""

    def __init__(self, domain: Domain, robot: CalledRobot, taker: CallTaker) -> None:
        super().__init__(domain, robot, dict.fromkeys(domain.skills, _AGENT))
        self._skills, self._called, self._taker = domain.skills, robot, taker
        self.cancelled_outside = False
        """Whether somebody cancelled a call of the run by itself, which ends the run."""

    def execute(
        self,
        call: Call,
        on_feedback: Callable[[Feedback], None],
        cancelled: Callable[[], bool],
        *,
        step: tuple[int, int] = (1, 1),
        attempt: int = 1,
    ) -> Outcome:
        """See `SkillExecutor.execute`."""
        skill = self._skills[call.skill]
        values = parameters_of(skill.parameters, call.parameters, f"skill {skill.name}")
        mine = Call(call_id_of(call.call_id), call.task_id, call.skill, values, call.deadline_ns)
        refusal = self._offered(mine, cancelled)
        if refusal is not None:
            return Outcome(call.call_id, *refusal)
        record, told = self._taker.ended(mine.call_id, _AGAIN_S), False
        while record is None or record.outcome is None:
            if not told and cancelled():
                self._taker.cancel(mine.call_id)
                told = True
            record = self._taker.ended(mine.call_id, _AGAIN_S)
        outcome = record.outcome
        self._called.take(outcome.facts)
        if outcome.status is Status.CANCELLED:
            self.cancelled_outside = not told
            cancelled()  # whoever asks why must know it
        return Outcome(call.call_id, outcome.status, _failure(skill, outcome), outcome.facts)

    def verify(self, call: Call) -> Outcome:
        """The journal had sensors look before it said that the outcome is unknown: only a person can tell now."""
        raise WorldEndedError(f"whether {call.skill} had its effect is not known ({call_id_of(call.call_id)})")

    def _offered(self, call: Call, cancelled: Callable[[], bool]) -> tuple[Status, str] | None:
        """None once the call is taken; full queues and open edges are waited for."""
        while True:
            answer = self._taker.offer(call)
            if answer in (Answer.ACCEPTED, Answer.KNOWN):
                return None
            if answer in (Answer.LATE, Answer.CLOSED):
                return Status.TIMED_OUT, DEADLINE
            if answer is Answer.CONFLICT:
                return Status.FAILED, f"{REFUSED}: {call.call_id} is another call's id"
            if cancelled():
                return Status.CANCELLED, CANCELLED
            time.sleep(_AGAIN_S)


def ways_of(domain: Domain) -> dict[str, str]:
    """Skill → way, for the runner of a run by calls."""
    return dict.fromkeys(domain.skills, _AGENT)


def call_id_of(inner: str) -> str:
    """A run's inner call id as one of the journal's."""
    return inner.replace("/", ":")


def _failure(skill: TaskSkill, outcome: Outcome) -> str | None:
    """A name that the state machine knows: a mode of the skill, what an executor says, a deadline, or a lost worker."""
    failure = outcome.failure
    if failure is None or failure in skill.failures or failure.startswith((REFUSED, GATE_HOLDS, WORLD_ENDED)):
        return failure
    return {Status.TIMED_OUT: DEADLINE, Status.FAILED: WORKER_LOST}.get(outcome.status, failure)
