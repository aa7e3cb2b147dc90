"""One call of one skill on one robot: checked, run in its worker, ended by what sensors see, remembered by its id."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from tether.agent.calls import Call, Feedback, Outcome, Status
from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain, parameters_of
from tether.agent.facts import Condition, Literal, unmet
from tether.agent.robot import Robot, WorldEndedError
from tether.errors import Fault, InvalidInputError

SETTLED = 2
"""Decisions in a row for which an effect or an early failure must be seen."""
VERIFY_NS = 600_000_000
"""How long sensors may take to verify an effect whose worker is gone: pictures are 140 ms old."""
REFUSED = "refused"
WORKER_LOST = "worker_lost"
AGENT_LOST = "agent_lost"
"""The process of the agent that was at it is gone."""
AGENT_OFFLINE = "agent_offline"
"""There is no agent that could do it, and none comes."""
LOST = (WORKER_LOST, AGENT_LOST)
GATE_HOLDS = "gate_holds"
DEADLINE = "deadline"
CANCELLED = "cancelled"
WORLD_ENDED = "world_ended"


class SkillExecutor:
    """See `tether.agent.calls.Executor`. One robot does one call at a time; others wait their turn.

    ways: skill → the way that the machine allows, from `tether.agent.machine`.
    """

    def __init__(self, domain: Domain, robot: Robot, ways: Mapping[str, str]) -> None:
        self._domain = domain
        self._robot = robot
        self._ways = ways
        self._turn = threading.Lock()
        self._outcomes: dict[str, Outcome] = {}
        self._calls: dict[str, Call] = {}

    def agent_of(self, skill: str) -> str:
        """Which agent does a skill; empty where there is one only."""
        return ""

    def execute(
        self,
        call: Call,
        on_feedback: Callable[[Feedback], None],
        cancelled: Callable[[], bool],
        *,
        step: tuple[int, int] = (1, 1),
        attempt: int = 1,
    ) -> Outcome:
        """See `Executor.execute`. A call id that was here before gets the outcome that it had then.

        Raises InvalidInputError for an unknown skill, parameters out of bounds, or a call id with another content.
        """
        skill = self._domain.skills.get(call.skill)
        if skill is None:
            known = ", ".join(self._domain.skills)
            raise InvalidInputError("call", [Fault("skill", repr(call.skill), f"one of {known}")])
        parameters = parameters_of(skill.parameters, call.parameters, f"skill {skill.name}")
        with self._turn:
            if self._calls.setdefault(call.call_id, call) != call:
                fault = Fault("call_id", call.call_id, "an id of its own: it stands for another call")
                raise InvalidInputError("call", [fault])
            known_outcome = self._outcomes.get(call.call_id)
            if known_outcome is not None:
                return known_outcome
            outcome = self._refused(call, skill) or self._run(
                call, skill, parameters, on_feedback, cancelled, step, attempt
            )
            self._outcomes[call.call_id] = outcome
            return outcome

    def verify(self, call: Call) -> Outcome:
        """Ask the sensors about the effect of a call that ended OUTCOME_UNKNOWN: DONE, or FAILED with the mode they
        show. Others get their outcome as it is."""
        with self._turn:
            outcome = self._outcomes[call.call_id]
            if outcome.status is not Status.OUTCOME_UNKNOWN:
                return outcome
            skill = self._domain.skills[call.skill]
            until_ns = self._robot.now_ns() + VERIFY_NS
            seen = 0
            while seen < SETTLED and self._robot.now_ns() < until_ns:
                self._robot.advance()
                seen = seen + 1 if self._holds(skill.achieves) else 0
            if seen >= SETTLED:
                outcome = self._outcome(call, Status.DONE, None)
            else:
                lost = (outcome.failure or "").partition(":")[0]
                outcome = self._outcome(call, Status.FAILED, lost)
            self._outcomes[call.call_id] = outcome
            return outcome

    def _refused(self, call: Call, skill: TaskSkill) -> Outcome | None:
        robot = self._robot
        missing = unmet(skill.requires, robot.facts, robot.now_ns(), self._domain.max_age_ns)
        if missing:
            reason = f"{REFUSED}: {'; '.join(map(str, missing))}"
            return self._outcome(call, Status.FAILED, reason)
        if skill.name not in self._ways:
            return self._outcome(call, Status.FAILED, f"{REFUSED}: no way of it fits this machine")
        return None

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
        robot = self._robot
        robot.start(replace(call, parameters=parameters), skill, self._ways[skill.name], step)
        begun_ns, limit_ns = robot.now_ns(), round(skill.limit_s * 1e9)
        watch = _Watch(skill, self._domain.spec.guards)
        while True:
            if cancelled():
                robot.stop(kill=False)
                return self._outcome(call, Status.CANCELLED, CANCELLED)
            try:
                robot.advance()
            except WorldEndedError as error:
                robot.stop(kill=False)
                return self._outcome(call, Status.FAILED, f"{WORLD_ENDED}: {error}")
            spent_ns = robot.now_ns() - begun_ns
            on_feedback(Feedback(call.call_id, skill.name, min(spent_ns / limit_ns, 1.0), attempt))
            if robot.fault is not None:
                robot.stop(kill=True)
                return self._outcome(call, Status.OUTCOME_UNKNOWN, f"{WORKER_LOST}: {robot.fault}")
            ended = watch.look(self._holds)
            if ended is not None:
                robot.stop(kill=False)
                status, failure = ended
                return self._outcome(call, status, failure)
            if robot.now_ns() >= call.deadline_ns:
                robot.stop(kill=True)
                return self._outcome(call, Status.TIMED_OUT, DEADLINE)
            if spent_ns >= limit_ns:
                robot.stop(kill=True)
                return self._outcome(call, Status.TIMED_OUT, self._mode_now(skill))

    def _mode_now(self, skill: TaskSkill) -> str:
        """The failure mode that the facts show; the last one catches all."""
        return next(name for name, mode in skill.failures.items() if self._holds(mode.condition))

    def _holds(self, condition: Condition) -> bool:
        return not unmet(condition, self._robot.facts, self._robot.now_ns(), self._domain.max_age_ns)

    def _outcome(self, call: Call, status: Status, failure: str | None) -> Outcome:
        return Outcome(call.call_id, status, failure, tuple(self._robot.facts.values()))


class _Watch:
    """Counts for how many decisions in a row the effect, an early failure or a held gate has been seen."""

    def __init__(self, skill: TaskSkill, guards: tuple[str, ...]) -> None:
        self._ends: dict[str | None, Condition] = {None: skill.achieves}
        self._ends |= {name: mode.condition for name, mode in skill.failures.items() if mode.early}
        self._guards = tuple(Literal(name) for name in guards)
        self._seen: dict[str | None, int] = dict.fromkeys([*self._ends, GATE_HOLDS], 0)

    def look(self, holds: Callable[[Condition], bool]) -> tuple[Status, str | None] | None:
        """Status and failure once one of them has been seen for long enough."""
        now = {name: holds(condition) for name, condition in self._ends.items()}
        now[GATE_HOLDS] = not holds(self._guards)
        for name, is_so in now.items():
            self._seen[name] = self._seen[name] + 1 if is_so else 0
            if self._seen[name] >= SETTLED:
                return (Status.DONE if name is None else Status.FAILED), name
        return None
