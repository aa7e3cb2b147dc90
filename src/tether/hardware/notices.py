"""What drivers have to say: kept until somebody takes it; the node makes events of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is; the numbers are those of tether_msgs/Event."""

    INFO = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Notice:
    """One thing that happened to a device."""

    level: Level
    kind: str
    text: str


class Notices:
    """A list that drivers' threads add to. A driver that cannot get rid of them keeps the newest hundred."""

    def __init__(self, limit: int = 100) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._items: list[Notice] = []

    def add(self, level: Level, kind: str, text: str) -> None:
        """Say something."""
        with self._lock:
            self._items.append(Notice(level, kind, text))
            del self._items[: -self._limit]

    def take(self) -> list[Notice]:
        """Everything said since the last time."""
        with self._lock:
            items, self._items = self._items, []
        return items


class BackOff:
    """When to try again: after `low_s`, then twice as long each time, up to `high_s`. Times are time.monotonic."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self._low_s, self._high_s = low_s, high_s
        self.reset()

    def reset(self) -> None:
        """It worked."""
        self._pause_s = self._low_s
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether the time for another try has come."""
        return now_s >= self._next_s

    def failed(self, now_s: float) -> None:
        """It did not work."""
        self._next_s = now_s + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, self._high_s)
