"""The supervisor's state machine: a table of transitions as data, and the little that executes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tether.contracts import Mode


class Event(str, Enum):
    """What can move the supervisor from one mode to another."""

    ARM = "arm"
    """Somebody armed the gate, with a reason, and its self-check passed: all fitted sensors are fresh."""
    FLOW = "flow"
    """A command passed every check."""
    HOLD = "hold"
    """A check let nothing pass: command or sensor missing, or bad input."""
    DEGRADE = "degrade"
    SLOW = "slow"
    RESTORE = "restore"
    SAFE = "safe"
    DISARM = "disarm"
    STOP = "stop"
    RESET = "reset"
    """Somebody reset a latched stop, with a reason, at standstill."""


AUTOMATIC = frozenset({Event.FLOW, Event.HOLD})
"""Events that the gate makes by itself at a tick; all others come from outside."""


@dataclass(frozen=True)
class Transition:
    """One row: in `source`, `event` leads to `target`."""

    source: Mode
    event: Event
    target: Mode
    note: str


_RUNNING = (Mode.ACTIVE, Mode.DEGRADED, Mode.SLOW)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(Mode.INIT, Event.ARM, Mode.ARMED, "explicit, with a reason, once every fitted sensor is fresh"),
    Transition(Mode.ARMED, Event.FLOW, Mode.ACTIVE, "a command passed every check"),
    Transition(Mode.ACTIVE, Event.HOLD, Mode.ARMED, "a check let nothing pass: controlled stop, then hold"),
    *(Transition(m, Event.DEGRADE, Mode.DEGRADED, "arbiter fell back") for m in (Mode.ARMED, Mode.ACTIVE, Mode.SLOW)),
    *(Transition(m, Event.SLOW, Mode.SLOW, "reduced speed") for m in (Mode.ARMED, Mode.ACTIVE, Mode.DEGRADED)),
    *(Transition(m, Event.RESTORE, Mode.ARMED, "cause is gone") for m in (Mode.DEGRADED, Mode.SLOW)),
    *(Transition(m, Event.SAFE, Mode.SAFE, "white-listed primitives only") for m in (Mode.ARMED, *_RUNNING)),
    Transition(Mode.SAFE, Event.ARM, Mode.ARMED, "explicit, with a reason"),
    *(Transition(m, Event.DISARM, Mode.INIT, "explicit") for m in (Mode.ARMED, *_RUNNING, Mode.SAFE)),
    *(Transition(m, Event.STOP, Mode.STOP, "emergency stop") for m in Mode if m is not Mode.STOP),
    Transition(Mode.STOP, Event.RESET, Mode.INIT, "explicit, with a reason, at standstill"),
)

_TABLE = {(row.source, row.event): row.target for row in TRANSITIONS}
if len(_TABLE) != len(TRANSITIONS):
    raise AssertionError("two transitions for the same mode and event")


def target(mode: Mode, event: Event) -> Mode | None:
    """Where `event` leads from `mode`; None where the table has no such row and nothing happens."""
    return _TABLE.get((mode, event))


@dataclass(frozen=True)
class Change:
    """One change of mode as it happened, for events, logs and the black box."""

    now_ns: int
    source: Mode
    event: Event
    target: Mode
    reason: str
