"""Calls from outside on one robot: skills and whole tasks by name, each call id once, deadlines of the steady clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tether.agent.calls import Call, Feedback, Outcome, Status
from tether.agent.domain import Domain
from tether.agent.execution import DEADLINE, WORLD_ENDED
from tether.agent.running import TaskRunner
from tether.errors import Fault, InvalidInputError

_FAR_NS = 2**62


class CallDesk:
    """Remembers the outcome of each call. Not safe for several threads: the robot's runs it."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._outcomes: dict[str, tuple[Call, Outcome]] = {}

    def require_known(self, call: Call) -> None:
        """Raises InvalidInputError where there is no skill and no task of that name."""
        if call.skill not in self._domain.skills and call.skill not in self._domain.tasks:
            known = ", ".join([*self._domain.skills, *self._domain.tasks])
            raise InvalidInputError("call", [Fault("skill", repr(call.skill), f"one of {known}")])

    def run(
        self,
        call: Call,
        ready: Callable[[], TaskRunner],
        on_feedback: Callable[[Feedback], None],
        cancelled: Callable[[], bool],
    ) -> Outcome:
        """Run the call to its end, or give the outcome that it had. ready: makes the runner where none is there yet.

        Raises InvalidInputError for parameters out of bounds and for a call id that stands for another call.
        """
        known = self._outcomes.get(call.call_id)
        if known is not None:
            if replace(known[0], deadline_ns=0) != replace(call, deadline_ns=0):
                raise InvalidInputError("call", [Fault("call_id", call.call_id, "an id of its own")])
            return known[1]

        def late() -> bool:
            return time.monotonic_ns() >= call.deadline_ns

        def ended() -> bool:
            return cancelled() or late()

        runner = ready()
        if call.skill in self._domain.tasks:
            outcome = runner.run(call.skill, call.call_id, call.parameters, on_feedback, ended).outcome
        else:
            outcome = runner.executor.execute(replace(call, deadline_ns=_FAR_NS), on_feedback, ended)
        if outcome.status is Status.CANCELLED and not cancelled() and late():
            outcome = Outcome(call.call_id, Status.TIMED_OUT, DEADLINE, outcome.facts)
        self._outcomes[call.call_id] = (call, outcome)
        return outcome


def world_ended(outcome: Outcome) -> bool:
    """Whether the world that the call was run in is over."""
    return WORLD_ENDED in (outcome.failure or "")
