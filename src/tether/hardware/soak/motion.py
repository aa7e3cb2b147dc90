"""What the robot does meanwhile: it holds where it was taken up, one joint goes to and fro, the wheels stand still."""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F64, TICK_NS, Command, Source
from tether.robot.roles import COMMAND_JOINTS

_PERIOD_S = 4.0


class Wiggle:
    """Commands of a slow sine of one joint about where it was when the servos were taken up."""

    def __init__(self, joint: str, amplitude_rad: float) -> None:
        self._joint = COMMAND_JOINTS.index(joint)
        self._amplitude_rad = amplitude_rad
        self._anchor: F64 | None = None
        self._tick = 0

    def anchor(self, position: F64 | None) -> None:
        """Begin anew at this position; None: there is none to begin at yet."""
        self._anchor = None if position is None else position.copy()
        self._tick = 0

    @property
    def anchored(self) -> bool:
        """Whether there is a position to move about."""
        return self._anchor is not None

    def next(self, stamp_ns: int) -> Command | None:
        """The command of the next tick."""
        if self._anchor is None:
            return None
        position, velocity = self._anchor.copy(), np.zeros(len(COMMAND_JOINTS))
        rate = 2.0 * math.pi / _PERIOD_S
        phase = rate * self._tick * TICK_NS * 1e-9
        position[self._joint] += self._amplitude_rad * math.sin(phase)
        velocity[self._joint] = self._amplitude_rad * rate * math.cos(phase)
        self._tick += 1
        return Command(self._tick, stamp_ns, -1, Source.GATE, COMMAND_JOINTS, position, velocity, np.zeros(3))
