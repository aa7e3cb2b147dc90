"""The world's own command watchdog: a second line behind the gate, sharing nothing with it."""

from __future__ import annotations

from tether.clock import Clock


class CommandWatchdog:
    """Says when gated commands have stayed away for longer than `timeout_ns`.

    The clock is the world's time in lockstep and a steady clock in real time, so that neither a stopped /clock nor a
    clock step can hide a silent gate. It counts from the start: a gate that never speaks is silent as well.
    """

    def __init__(self, timeout_ns: int, clock: Clock) -> None:
        if timeout_ns <= 0:
            raise ValueError(f"watchdog timeout {timeout_ns} ns, expected more than 0; it cannot be switched off")
        self._timeout_ns = timeout_ns
        self._clock = clock
        self._fed_ns = clock.now_ns()

    def reset(self) -> None:
        """Start counting anew."""
        self._fed_ns = self._clock.now_ns()

    def feed(self) -> None:
        """A command has come."""
        self._fed_ns = self._clock.now_ns()

    def expired(self) -> bool:
        """True once nothing has come for longer than the timeout."""
        return self._clock.now_ns() - self._fed_ns > self._timeout_ns
