"""Clocks as arguments: core code never asks the operating system for the time by itself."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of integer nanoseconds that never runs backwards."""

    def now_ns(self) -> int:
        """Current reading; only differences mean anything."""


class SteadyClock:
    """CLOCK_MONOTONIC: untouched by wall-clock steps and by a stopped or rewound /clock."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        return time.monotonic_ns()


class ManualClock:
    """A clock moved by hand: world time in lockstep and replay, and tests."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """The time last set."""
        return self._now_ns

    def set_ns(self, now_ns: int) -> None:
        """Move to `now_ns`; refuses to go backwards (make a new clock for a new episode)."""
        if now_ns < self._now_ns:
            raise ValueError(f"clock asked to go from {self._now_ns} back to {now_ns} ns; reset with a new clock")
        self._now_ns = now_ns
