"""Random streams and delivery: every sensor has its own, so that changing one leaves the others' draws alone."""

from __future__ import annotations

from bisect import insort
from enum import IntEnum

import numpy as np

from tether.contracts import F64, Sample
from tether.world.profile import Delay, ImuProfile

_BLOCK = 256


class Draw(IntEnum):
    """Purposes of random numbers; each has a generator of its own. Values are part of what a seed means."""

    CUBE = 0
    CARRIER = 1
    VARIATION = 2
    IMU_NOISE = 3
    IMU_DELAY = 4
    JOINT_NOISE = 5
    JOINT_DELAY = 6
    CAMERA_NOISE = 7
    CAMERA_DELAY = 8
    REWARD_DELAY = 9
    DISTRACTORS = 10


def generator(seed: int, draw: Draw) -> np.random.Generator:
    """The generator of one purpose in the episode of `seed` (≥ 0)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(int(draw),))))


class DelayDraw:
    """Draws of one sensor's delays in nanoseconds; None for a dropped sample."""

    def __init__(self, delay: Delay, rng: np.random.Generator) -> None:
        self._delay = delay
        self._rng = rng
        self._block: list[int | None] = []

    def next_ns(self) -> int | None:
        """Delay of the next sample, or None if it never arrives."""
        if not self._block:
            self._refill()
        return self._block.pop()

    def _refill(self) -> None:
        delay = self._delay
        spread = self._rng.uniform(-1.0, 1.0, _BLOCK)
        dropped = self._rng.random(_BLOCK) < delay.drop_probability
        values = np.rint((delay.latency_s + delay.jitter_s * spread) * 1e9).astype(np.int64)
        self._block = [None if drop else int(v) for drop, v in zip(dropped[::-1], values[::-1], strict=True)]


class Rows:
    """Rows of standard normal numbers scaled by `sigma` (n,), made a block at a time."""

    def __init__(self, sigma: F64, rng: np.random.Generator) -> None:
        self._sigma = sigma
        self._rng = rng
        self._left: list[F64] = []

    def next(self) -> F64:
        """The next row, (n,); the caller must not write to it."""
        if not self._left:
            self._left = list(self._make()[::-1])
        return self._left.pop()

    def _make(self) -> F64:
        block: F64 = self._rng.standard_normal((_BLOCK, len(self._sigma))) * self._sigma
        return block


class ImuError(Rows):
    """Additive error of gyro and accelerometer, (6,): white noise on a bias that starts random and wanders."""

    def __init__(self, profile: ImuProfile, period_s: float, rng: np.random.Generator) -> None:
        noise = np.repeat([profile.gyro_noise_rad_s, profile.accel_noise_m_s2], 3)
        super().__init__(noise, rng)
        turn_on = np.repeat([profile.gyro_bias_rad_s, profile.accel_bias_m_s2], 3)
        walk = np.repeat([profile.gyro_walk_rad_s_sqrt_s, profile.accel_walk_m_s2_sqrt_s], 3)
        self._bias = turn_on * rng.standard_normal(6)
        self._walk = walk * np.sqrt(period_s)

    def _make(self) -> F64:
        path = self._bias + np.cumsum(self._rng.standard_normal((_BLOCK, 6)) * self._walk, axis=0)
        self._bias = path[-1]
        block: F64 = path + super()._make()
        return block


class DelayQueue:
    """Samples on their way: each becomes due at its delivery time, in order of that time, then of being sent."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, int, Sample]] = []
        self._count = 0

    def send(self, deliver_ns: int, sample: Sample) -> None:
        """Take a sample that will be due at `deliver_ns`."""
        self._count += 1
        entry = (deliver_ns, self._count, sample)
        if not self._pending or self._pending[-1][0] <= deliver_ns:
            self._pending.append(entry)
        else:
            insort(self._pending, entry)

    def due(self, now_ns: int) -> list[Sample]:
        """Remove and return every sample due by `now_ns`."""
        pending = self._pending
        samples: list[Sample] = []
        for entry in pending:
            if entry[0] > now_ns:
                break
            samples.append(entry[2])
        if samples:
            del pending[: len(samples)]
        return samples
