"""The base's command for a world that only takes it without a stamp, and so cannot tell an old one from a new one."""

from __future__ import annotations

import numpy as np

from tether.contracts import F64
from tether.errors import Fault, InvalidInputError


class UnstampedTwist:
    """Hands on the newest gated twist; stands still once gated commands have stopped for `timeout_ns`."""

    def __init__(self, timeout_ns: int) -> None:
        """timeout_ns: more than 0; there is no way to switch it off."""
        if timeout_ns <= 0:
            raise InvalidInputError("unstamped twist", [Fault("timeout_ns", str(timeout_ns), "more than 0")])
        self._timeout_ns = timeout_ns
        self._twist = np.zeros(3)
        self._fed_ns: int | None = None

    def feed(self, twist: F64, now_ns: int) -> None:
        """Take a gated twist: vx, vy (m/s), wz (rad/s). One that is not finite is refused and feeds nothing."""
        if np.shape(twist) != (3,) or not np.isfinite(twist).all():
            raise InvalidInputError("twist", [Fault("twist", str(twist), "3 finite numbers")])
        self._twist = np.array(twist, np.float64)
        self._fed_ns = now_ns

    def at(self, now_ns: int) -> tuple[F64, bool]:
        """The twist to send now, and whether it is the stop of the watchdog. now_ns: of a steady clock."""
        if self._fed_ns is None:
            return np.zeros(3), False
        if now_ns - self._fed_ns > self._timeout_ns:
            return np.zeros(3), True
        return self._twist.copy(), False
