"""Servos as the gate's commands meet them: dead time, first-order lag, velocity limit; and the base's drive."""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F64
from tether.world.model import SUBSTEP_NS, SUBSTEPS_PER_TICK

_DT = SUBSTEP_NS * 1e-9
_RING = 64
"""Ticks of commands kept; bounds the dead time at 0.63 s."""


class ServoBank:
    """n position servos. x follows the command u of `dead_s` ago: dx/dt = (u - x)/tau, |dx/dt| ≤ v_max.

    The lag is integrated exactly for the command held over a physics step.
    """

    def __init__(self, v_max: F64, rows: F64 | None = None) -> None:
        """v_max: (n,) velocity limits. rows: (SUBSTEPS_PER_TICK, n) array to write the set-points of a tick into."""
        self._n = len(v_max)
        self._step_max = v_max * _DT
        self._ring = np.zeros((_RING, self._n))
        self._tick = 0
        self._x = np.zeros(self._n)
        self._rows = np.zeros((SUBSTEPS_PER_TICK, self._n)) if rows is None else rows
        self.configure(0.0, 0.0)

    def configure(self, dead_s: float, tau_s: float) -> None:
        """Set dead time (rounded to the physics step) and time constant, from the next tick on."""
        self._dead_steps = round(dead_s / _DT)
        if self._dead_steps > (_RING - 2) * SUBSTEPS_PER_TICK:
            raise ValueError(f"dead time {dead_s} s, expected at most {(_RING - 2) * SUBSTEPS_PER_TICK * _DT} s")
        self._keep = math.exp(-_DT / tau_s) if tau_s > 0.0 else 0.0
        steps = np.arange(1, SUBSTEPS_PER_TICK + 1)
        self._gain = (1.0 - self._keep**steps)[:, None]
        # Up to this distance the lag alone does not exceed the velocity limit.
        self._slow_enough = self._step_max / (1.0 - self._keep)
        self._per_slow = 1.0 / self._slow_enough

    def reset(self, position: F64) -> None:
        """Stand still at `position` (n,) with no command under way."""
        self._x[:] = position
        self._ring[:] = position
        self._tick = 0

    @property
    def position(self) -> F64:
        """Where the servos' set-points are now, (n,); a view, not to be written to."""
        return self._x

    def advance(self, command: F64) -> F64:
        """Take this tick's command (n,); returns the set-point of each physics step, (SUBSTEPS_PER_TICK, n)."""
        self._ring[self._tick % _RING] = command
        whole, part = divmod(self._dead_steps, SUBSTEPS_PER_TICK)
        if part:
            self._follow(self._tick - whole - 1, 0, part)
        self._follow(self._tick - whole, part, SUBSTEPS_PER_TICK)
        self._tick += 1
        return self._rows

    def _follow(self, tick: int, first: int, last: int) -> None:
        x, rows = self._x, self._rows[first:last]
        error = self._ring[tick % _RING] - x
        share = error * self._per_slow
        # The squares' sum first: it is the cheapest bound, and nearly always enough.
        if share.dot(share) <= 1.0 or (np.abs(share) <= 1.0).all():
            np.multiply(self._gain[: last - first], error, out=rows)
            rows += x
        else:
            target = self._ring[tick % _RING]
            position = x.copy()
            for row in rows:
                step = (target - position) * (1.0 - self._keep)
                position += np.minimum(np.maximum(step, -self._step_max), self._step_max)
                row[:] = position
        x[:] = rows[-1]


class Drive:
    """The omni base: its velocity follows the commanded twist with dead time, lag and an acceleration limit.

    The pose is that of the base on its carrier, (x, y, yaw), integrated from the twist in the base frame.
    """

    def __init__(self, wheel_distance_m: float) -> None:
        """wheel_distance_m: of the wheels from the centre; it turns the acceleration limit into one of yaw."""
        self._wheel_distance_m = wheel_distance_m
        self.configure(0.0, 0.0, 1.0)
        self.reset()

    def configure(self, dead_s: float, tau_s: float, acceleration_m_s2: float) -> None:
        """Set dead time (rounded to the tick), time constant and acceleration limit."""
        tick_s = _DT * SUBSTEPS_PER_TICK
        self._dead_ticks = round(dead_s / tick_s)
        self._gain = 1.0 - math.exp(-tick_s / tau_s) if tau_s > 0.0 else 1.0
        step = acceleration_m_s2 * tick_s
        self._dv_max = (step, step, step / self._wheel_distance_m)

    def reset(self) -> None:
        """Stand still at the carrier's origin."""
        self._under_way: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)] * self._dead_ticks
        self.twist = (0.0, 0.0, 0.0)
        self.pose = (0.0, 0.0, 0.0)
        self.moving = False

    def advance(self, twist: F64) -> None:
        """Move by one tick towards `twist` (3,): vx, vy (m/s), wz (rad/s)."""
        self._under_way.append((float(twist[0]), float(twist[1]), float(twist[2])))
        target = self._under_way.pop(0)
        if target == self.twist == (0.0, 0.0, 0.0):
            self.moving = False
            return
        self.moving = True
        stepped = [
            v + max(-limit, min(limit, self._gain * (want - v)))
            for v, want, limit in zip(self.twist, target, self._dv_max, strict=True)
        ]
        vx, vy, wz = (0.0 if abs(v) < 1e-6 and want == 0.0 else v for v, want in zip(stepped, target, strict=True))
        self.twist = (vx, vy, wz)
        x, y, yaw = self.pose
        tick_s = _DT * SUBSTEPS_PER_TICK
        middle = yaw + 0.5 * wz * tick_s
        cos, sin = math.cos(middle), math.sin(middle)
        self.pose = (x + (cos * vx - sin * vy) * tick_s, y + (sin * vx + cos * vy) * tick_s, yaw + wz * tick_s)
