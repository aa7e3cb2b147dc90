"""A call of a task skill and its outcome: what whoever calls a skill and whoever runs it agree on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

Value = bool | float | str
"""What a fact says: true or false, a number in the unit its declaration gives, or a name."""


@dataclass(frozen=True)
class Fact:
    """One thing held to be true of the world, and since when. source: the sensor, skill or person it comes from."""

    name: str
    value: Value
    stamp_ns: int
    source: str


@dataclass(frozen=True)
class Call:
    """Run `skill` once for `task_id`. The same `call_id` is never run a second time: it gets its first outcome.

    parameters: by name, in the units of the skill's declaration. deadline_ns: of the executor's clock.
    """

    call_id: str
    task_id: str
    skill: str
    parameters: Mapping[str, float]
    deadline_ns: int


class Status(str, Enum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    """Not done, and it is known why: Outcome.failure names the failure mode, or why it was refused."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    OUTCOME_UNKNOWN = "outcome_unknown"
    """Whoever ran it is gone. Sensors verify the effect before anybody may try again."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended. failure: a name on everything but DONE, None there. facts: verified after the call."""

    call_id: str
    status: Status
    failure: str | None = None
    facts: tuple[Fact, ...] = field(default=())

    def __post_init__(self) -> None:
        if (self.status is Status.DONE) != (self.failure is None):
            raise ValueError(f"outcome {self.status.value} with failure {self.failure!r}: done names none, others do")


@dataclass(frozen=True)
class Feedback:
    """How far a call is. step: the skill or primitive at work; progress: 0 to 1; attempt: from 1."""

    call_id: str
    step: str
    progress: float
    attempt: int


class Executor(Protocol):
    """Runs calls. Safe to be called from several threads; each call blocks its own."""

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """Run the call to its end. `cancelled` is asked often; once it says yes, the outcome is CANCELLED soon after.

        Raises InvalidInputError for a skill or parameters that do not exist, before anything is done.
        """
