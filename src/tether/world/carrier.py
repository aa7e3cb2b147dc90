"""How the ground carries the base: round a circle that it leaves the other way at random moments, over uneven floor.

The path is made ahead of time in blocks of physics steps, with position, velocity and acceleration that belong to
each other, so that the IMU on the base measures exactly what the cube's motion relative to the base shows.
"""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F64
from tether.world.task import CarrierSpec

_BLOCK_STEPS = 4096
_WAVES = 3


class CarrierPath:
    """Motion of the base's carrier, row by row of (x, y, z, yaw, pitch, roll) in the world.

    `block()` gives the next _BLOCK_STEPS rows of position, velocity and acceleration, each (n, 6). The path starts
    at the circle's point (radius, 0) · turned by a random angle, and is shifted so that the circle's centre is the
    world's origin.
    """

    def __init__(self, spec: CarrierSpec, step_s: float, rng: np.random.Generator) -> None:
        self._spec = spec
        self._dt = step_s
        self._rng = rng
        self._theta = rng.uniform(0.0, 2.0 * math.pi)
        self._rate = 0.0
        self._accel = 0.0
        self._jerk: list[float] = []
        self._direction = 1.0 if rng.random() < 0.5 else -1.0
        self._step = 0
        self._frequency = rng.uniform(*spec.uneven_hz, size=(3, _WAVES)) * 2.0 * math.pi
        self._phase = rng.uniform(0.0, 2.0 * math.pi, size=(3, _WAVES))
        amplitude = np.array([spec.heave_m, spec.tilt_rad, spec.tilt_rad])
        self._amplitude = amplitude[:, None] / _WAVES

    def block(self) -> tuple[F64, F64, F64]:
        """The next rows: position, velocity, acceleration."""
        jerk = self._next_jerk()
        theta, rate, accel = self._integrate(jerk)
        n = len(jerk)
        position, velocity, acceleration = np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((n, 6))
        radius = self._spec.radius_m
        cos, sin = np.cos(theta), np.sin(theta)
        position[:, 0], position[:, 1] = radius * cos, radius * sin
        velocity[:, 0], velocity[:, 1] = -radius * sin * rate, radius * cos * rate
        acceleration[:, 0] = radius * (-cos * rate**2 - sin * accel)
        acceleration[:, 1] = radius * (-sin * rate**2 + cos * accel)
        self._add_unevenness(position, velocity, acceleration)
        self._step += n
        return position, velocity, acceleration

    def _integrate(self, jerk: F64) -> tuple[F64, F64, F64]:
        """Angle, rate and acceleration at the start of each step of constant `jerk`; moves the state to the end."""
        dt = self._dt
        accel = self._accel + np.concatenate([[0.0], np.cumsum(jerk) * dt])
        rate_steps = accel[:-1] * dt + jerk * dt**2 / 2.0
        rate = self._rate + np.concatenate([[0.0], np.cumsum(rate_steps)])
        theta_steps = rate[:-1] * dt + accel[:-1] * dt**2 / 2.0 + jerk * dt**3 / 6.0
        theta = self._theta + np.concatenate([[0.0], np.cumsum(theta_steps)])
        self._accel, self._rate, self._theta = float(accel[-1]), float(rate[-1]), float(theta[-1])
        return theta[:-1], rate[:-1], accel[:-1]

    def _next_jerk(self) -> F64:
        while len(self._jerk) < _BLOCK_STEPS:
            self._jerk += self._one_leg()
        block = np.array(self._jerk[:_BLOCK_STEPS])
        del self._jerk[:_BLOCK_STEPS]
        return block

    def _one_leg(self) -> list[float]:
        """Jerk of one change of speed and of the steady going after it."""
        spec = self._spec
        target = self._direction * self._rng.uniform(*spec.speed_m_s) / spec.radius_m
        # The rate reached by all jerk planned so far, not the state of the last block handed out.
        change = target - self._planned_rate()
        self._direction = -self._direction
        steady = round(self._rng.uniform(*spec.interval_s) / self._dt)
        profile = _change_of_rate(change, spec.acceleration_rad_s2, spec.jerk_rad_s3, self._dt)
        return profile + [0.0] * max(steady - len(profile), 0)

    def _planned_rate(self) -> float:
        dt = self._dt
        jerk = np.array(self._jerk)
        accel = self._accel + np.concatenate([[0.0], np.cumsum(jerk) * dt])
        return float(self._rate + np.sum(accel[:-1] * dt + jerk * dt**2 / 2.0)) if len(jerk) else self._rate

    def _add_unevenness(self, position: F64, velocity: F64, acceleration: F64) -> None:
        t = (self._step + np.arange(len(position))) * self._dt
        for row, column in enumerate((2, 4, 5)):
            for a, w, p in zip(
                np.broadcast_to(self._amplitude[row], _WAVES), self._frequency[row], self._phase[row], strict=True
            ):
                position[:, column] += a * np.sin(w * t + p)
                velocity[:, column] += a * w * np.cos(w * t + p)
                acceleration[:, column] -= a * w**2 * np.sin(w * t + p)


def _change_of_rate(change: float, accel_max: float, jerk_max: float, dt: float) -> list[float]:
    """Jerk per step that changes the rate by exactly `change`: acceleration up, steady, down, within the limits."""
    if change == 0.0:
        return []
    size = abs(change)
    ramp_s = min(accel_max / jerk_max, math.sqrt(size / jerk_max))
    ramp = max(math.ceil(ramp_s / dt), 1)
    flat = max(math.ceil((size / accel_max - ramp_s) / dt), 0) if size > accel_max**2 / jerk_max else 0
    # n steps up, m flat, n down at jerk j change the rate by j dt² n (n + m): j follows, and is within the limits.
    jerk = change / (dt**2 * ramp * (ramp + flat))
    return [jerk] * ramp + [0.0] * flat + [-jerk] * ramp
