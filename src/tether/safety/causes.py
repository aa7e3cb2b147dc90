"""What keeps the robot from its full freedom, by name: the worst of the causes says which mode it runs in."""

from __future__ import annotations

from enum import IntEnum

from tether.contracts import Mode
from tether.safety import machine
from tether.safety.machine import Event


class Level(IntEnum):
    """How much a cause restricts, from least to most."""

    NONE = 0
    SLOW = 1
    DEGRADED = 2
    SAFE = 3
    """White-listed primitives only, until somebody arms the gate again with a reason."""
    STOP = 4
    """Latched stop."""


_EVENTS = {
    Level.SLOW: (Event.SLOW, Mode.SLOW),
    Level.DEGRADED: (Event.DEGRADE, Mode.DEGRADED),
    Level.SAFE: (Event.SAFE, Mode.SAFE),
    Level.STOP: (Event.STOP, Mode.STOP),
}
_CAUSES_MAX = 64


class Causes:
    """Causes come and go in any order; `event` gives the step of the state machine that they ask for.

    Slow and degraded end by themselves with their causes. Safe and stop do not: there the machine itself has no way
    back but an explicit one, and a cause that is still there leads into them again.
    """

    def __init__(self) -> None:
        self._causes: dict[str, tuple[Level, str]] = {}
        self._imposed = False

    def report(self, name: str, level: Level, reason: str) -> None:
        """A cause is there; NONE clears it. The newest word on a name counts. ValueError for more than 64 names."""
        if level is Level.NONE:
            self.clear(name)
        elif name not in self._causes and len(self._causes) >= _CAUSES_MAX:
            raise ValueError(f"more than {_CAUSES_MAX} causes")
        else:
            self._causes[name] = level, reason

    def clear(self, name: str) -> None:
        """A cause is gone."""
        self._causes.pop(name, None)

    def forget(self) -> None:
        """Start anew with the gate."""
        self._causes.clear()
        self._imposed = False

    def worst(self) -> tuple[Level, str]:
        """The level that rules, and the cause with its reason."""
        if not self._causes:
            return Level.NONE, ""
        name, (level, reason) = max(self._causes.items(), key=lambda item: item[1][0])
        return level, f"{name}: {reason}"

    def event(self, mode: Mode) -> tuple[Event, str] | None:
        """What the causes ask of a machine in `mode`; None where it is where they want it, or has no way there."""
        level, reason = self.worst()
        if level is Level.NONE:
            imposed, self._imposed = self._imposed, False
            return (Event.RESTORE, "cause is gone") if imposed and mode in (Mode.SLOW, Mode.DEGRADED) else None
        event, wanted = _EVENTS[level]
        if mode is wanted or machine.target(mode, event) is None:
            return None
        self._imposed = level in (Level.SLOW, Level.DEGRADED)
        return event, reason
