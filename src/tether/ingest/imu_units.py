"""Are these readings m/s² and rad/s? What can be known of an IMU's units from its numbers, and what cannot.

Acceleration. At rest an accelerometer reads gravity, so the norm names the unit: 9.81 is m/s², 1 is g,
near 1000 is milli-g, nothing at all means that gravity was taken out (REP 145 wants it in). Scale errors
of cheap MEMS parts reach 11 % (measured on a recorded MPU-6050), hence bands of ±20 %. One reading near 9.81
opens the stream; the median of the start-up window has the last word. Afterwards a norm below half of gravity or
above twice gravity, 100 readings in a row, is no motion of a robot (half a second of it at 200 Hz is a fall of a
metre) but a driver that changed its unit. Assumed: for half of the start-up
window the robot is not in free fall and not accelerated by more than 2 m/s² along gravity.

Angular rate. Zero at rest in every unit, so the norm says nothing. Three things do:
* Noise. MEMS gyros show 0.05 to 0.6 deg/s RMS (datasheet of the MPU-6050: 0.05; the recorded one 0.12 to 0.6;
  an x-IMU 0.1 to 0.3), a Husky's idling on its wheels 0.5; that is 0.001 to 0.01 in rad/s and 0.05 to 0.6 in
  deg/s. More than 0.04 while the accelerometer is still is deg/s. Noise is taken from second differences, so
  smooth motion does not count as noise.
* Range. Common parts end at 2000 deg/s = 34.9 rad/s, and a robot on wheels turns far slower: 1000 deg/s =
  17.5 rad/s is the bound here. Several readings in a row above it are deg/s, single ones are glitches.
* Gravity. When the robot tilts, gravity moves in the IMU frame by exactly the integral of the rate. Whichever
  unit explains the movement is the unit.
What cannot be known: a gyro that is quieter than 0.04 deg/s (fibre optic, or a noiseless simulator), never
tilts and stays under the range gives the same numbers in both units. Such a stream passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tether.config import bounded
from tether.contracts import F64
from tether.ingest.rejection import Reason, Rejection

STANDARD_GRAVITY_M_S2 = 9.80665
_BAND = 0.2
_DEG = math.pi / 180.0


@dataclass(frozen=True)
class UnitConfig:
    """Bounds of the unit checks; defaults reasoned in the module's docstring."""

    startup_samples: int = bounded(8, 10_000, unit="samples", default=40, doc="window the unit verdict is made on")
    gyro_noise_max_rad_s: float = bounded(0.001, 1.0, unit="rad/s", default=0.04, doc="RMS at rest above this is deg/s")
    gyro_range_rad_s: float = bounded(
        0.1, 100.0, unit="rad/s", default=17.5, doc="no axis of the sensor or the robot reaches this"
    )
    range_strikes: int = bounded(
        1,
        1000,
        unit="samples",
        default=10,
        doc="this many in a row beyond the range: not glitches, but deg/s",
    )
    accel_range_m_s2: float = bounded(
        20.0, 5000.0, unit="m/s^2", default=320.0, doc="no reading reaches this: 32 g, above common parts"
    )
    gravity_lost_after: int = bounded(
        10,
        100_000,
        unit="samples",
        default=100,
        doc="this many in a row beyond half and twice gravity: not motion, but another unit",
    )
    still_noise_max: float = bounded(
        0.0001, 0.1, unit="of gravity", default=0.02, doc="accelerometer noise below which the robot stands"
    )


class AccelerationUnit(str, Enum):
    """Units a source may declare for acceleration; only m/s² is taken."""

    M_S2 = "m/s^2"
    G = "g"
    MILLI_G = "mg"


class AngularRateUnit(str, Enum):
    """Units a source may declare for angular rate; only rad/s is taken."""

    RAD_S = "rad/s"
    DEG_S = "deg/s"


def check_declared(acceleration: AccelerationUnit, angular_rate: AngularRateUnit) -> list[Rejection]:
    """Faults of the units that a source declares for itself; empty for SI. Nothing is rescaled."""
    faults = []
    if acceleration is not AccelerationUnit.M_S2:
        faults.append(_wrong_acceleration(f"the source declares {acceleration.value}"))
    if angular_rate is not AngularRateUnit.RAD_S:
        faults.append(_wrong_rate(f"the source declares {angular_rate.value}"))
    return faults


def noise_rms(values: F64) -> F64:
    """Noise of each column of `values` (n, k), n ≥ 3, blind to smooth motion; returns (k,).

    Median absolute second difference, scaled for white Gaussian noise: the second difference has variance 6
    σ² and the median of |x| is 0.6745 of its deviation.
    """
    second = np.abs(np.diff(values, n=2, axis=0))
    return np.asarray(np.median(second, axis=0) / (0.6745 * math.sqrt(6.0)), dtype=np.float64)


class UnitCheck:
    """Start-up verdict and watch over the units of one IMU; once against, it stays until `reset`."""

    def __init__(self, config: UnitConfig) -> None:
        self._config = config
        self.reset()

    def reset(self) -> None:
        """Start over, as for a sensor never seen."""
        self._startup: list[tuple[float, ...]] | None = []
        self._seen_gravity = False
        self._strikes = 0
        self._without_gravity = 0
        self._tilt: _TiltWatch | None = _TiltWatch()
        self.refused: Rejection | None = None

    def check(self, stamp_ns: int, gyro: Sequence[float], accel: Sequence[float]) -> Rejection | None:
        """Judge one finite reading: gyro (3,), accel (3,), in the units they came in, stamps rising."""
        if self.refused is not None:
            return self.refused
        glitch = self._range(gyro, accel)
        if glitch is not None:
            return self.refused or glitch
        self.refused = self._collect(gyro, accel) or self._gravity(accel) or self._follow(stamp_ns, gyro, accel)
        self._seen_gravity = self._seen_gravity or _near(_norm(accel), STANDARD_GRAVITY_M_S2)
        return self.verdict()

    def verdict(self) -> Rejection | None:
        """What is known so far: the standing refusal, not proven yet, or None."""
        if self.refused is not None or self._seen_gravity:
            return self.refused
        n = len(self._startup or ())
        detail = f"gravity not seen yet in {n} of {self._config.startup_samples} samples of start-up"
        return Rejection(Reason.UNITS_UNPROVEN, detail)

    def _range(self, gyro: Sequence[float], accel: Sequence[float]) -> Rejection | None:
        """One reading out of range is a glitch on the bus; many in a row are another unit."""
        turn, push = max(map(abs, gyro)), max(map(abs, accel))
        limit, accel_limit = self._config.gyro_range_rad_s, self._config.accel_range_m_s2
        if push > accel_limit and self._seen_gravity:
            return Rejection(Reason.OUT_OF_RANGE, f"acceleration {push:.4g}, sensors end at {accel_limit:g} m/s²")
        if turn <= limit:
            self._strikes = 0
            return None
        self._strikes += 1
        found = f"{turn:.4g} read, sensor and robot end at {limit:g} rad/s"
        if self._strikes >= self._config.range_strikes:
            self.refused = _wrong_rate(f"{self._strikes} times in a row {found}")
        return Rejection(Reason.OUT_OF_RANGE, f"angular velocity {found}")

    def _collect(self, gyro: Sequence[float], accel: Sequence[float]) -> Rejection | None:
        if self._startup is None:
            return None
        self._startup.append((*gyro, *accel))
        n, full = len(self._startup), self._config.startup_samples
        if n not in (full // 4, full // 2, full):
            return None
        window = np.array(self._startup)
        acceleration, rate = judge_acceleration(window[:, 3:]), judge_gyro_noise(window, self._config)
        if n == full:
            self._startup = None
        elif rate is None:
            return None  # noise shows early, gravity may yet be hidden by the first motion
        if acceleration is not None and rate is not None:
            return Rejection(acceleration.reason, f"{acceleration.detail}; besides, gyro {rate.detail}")
        return acceleration or rate

    def _gravity(self, accel: Sequence[float]) -> Rejection | None:
        """Whether gravity, once there, is gone for longer than a motion could hide it."""
        norm = _norm(accel)
        if self._startup is not None or 0.5 <= norm / STANDARD_GRAVITY_M_S2 <= 2.0:
            self._without_gravity = 0
            return None
        self._without_gravity += 1
        n = self._config.gravity_lost_after
        return _by_norm(norm, f"|a| after {n} readings without gravity") if self._without_gravity >= n else None

    def _follow(self, stamp_ns: int, gyro: Sequence[float], accel: Sequence[float]) -> Rejection | None:
        if self._tilt is None:
            return None
        unit = self._tilt.update(stamp_ns, gyro, accel)
        if unit is AngularRateUnit.DEG_S:
            return _wrong_rate("gravity turned as the gyro says only if its numbers are degrees")
        if unit is AngularRateUnit.RAD_S:
            self._tilt = None  # proven; a sensor does not change its unit
        return None


def judge_acceleration(accel: F64) -> Rejection | None:
    """Verdict on start-up accelerations (n, 3) by the median of their norm."""
    norm = float(np.median(np.linalg.norm(accel, axis=1)))
    return None if _near(norm, STANDARD_GRAVITY_M_S2) else _by_norm(norm, "median |a| at start-up")


def _by_norm(norm: float, what: str) -> Rejection:
    """The unit that a norm which is not gravity in m/s² speaks for."""
    found = f"{what} is {norm:.4g}"
    if _near(norm, 1.0):
        return _wrong_acceleration(f"{found}, which is gravity in g")
    if _near(norm, 1000.0):
        return _wrong_acceleration(f"{found}, which is gravity in milli-g")
    if norm < 0.5:
        fix = "publish acceleration with gravity included (REP 145)"
        return Rejection(Reason.GRAVITY_MISSING, f"{found}, expected 9.81 m/s²; {fix}")
    return _wrong_acceleration(f"{found}, which is gravity in no unit known here (raw counts? robot moving?)")


def judge_gyro_noise(window: F64, config: UnitConfig) -> Rejection | None:
    """Verdict on start-up readings (n, 6) by the gyro's noise, where the accelerometer is still."""
    noise = noise_rms(window)
    gravity = float(np.median(np.linalg.norm(window[:, 3:], axis=1)))
    if gravity == 0.0 or float(np.median(noise[3:])) > config.still_noise_max * gravity:
        return None
    rms = float(np.median(noise[:3]))
    if rms <= config.gyro_noise_max_rad_s:
        return None
    return _wrong_rate(f"noise at rest is {rms:.3g} RMS, a gyro in rad/s stays below {config.gyro_noise_max_rad_s:g}")


class _TiltWatch:
    """Follows gravity as it moves in the IMU frame and asks which unit explains the movement.

    A vector fixed in the world moves there with d' = -w x d. Both readings of w are integrated; once gravity
    has moved by a quarter of a radian, a unit gets a vote if it alone ends within a quarter of the movement.
    """

    _LONGEST_NS = 2_000_000_000
    _MAX_STEP_NS = 100_000_000
    _VOTES = 3

    def __init__(self) -> None:
        self._start_ns: int | None = None
        self._last_ns = 0
        self._from: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._as_rad = self._from
        self._as_deg = self._from
        self._score = 0

    def update(self, stamp_ns: int, gyro: Sequence[float], accel: Sequence[float]) -> AngularRateUnit | None:
        """Take one reading; the unit once it is proven, else None."""
        step = stamp_ns - self._last_ns
        if self._start_ns is None or not 0 < step <= self._MAX_STEP_NS:
            self._begin(stamp_ns, accel)
            return None
        self._last_ns = stamp_ns
        self._as_rad = _turned(self._as_rad, gyro, step * 1e-9)
        self._as_deg = _turned(self._as_deg, gyro, step * 1e-9 * _DEG)
        if not _near(_norm(accel), STANDARD_GRAVITY_M_S2, 0.05):
            return None
        now = _unit(accel)
        moved = math.dist(self._from, now)
        if moved < 0.25 and stamp_ns - self._start_ns < self._LONGEST_NS:
            return None
        if moved >= 0.25:
            self._vote(moved, now)
        self._begin(stamp_ns, accel)
        if abs(self._score) < self._VOTES:
            return None
        return AngularRateUnit.RAD_S if self._score > 0 else AngularRateUnit.DEG_S

    def _begin(self, stamp_ns: int, accel: Sequence[float]) -> None:
        self._last_ns = stamp_ns
        if not _near(_norm(accel), STANDARD_GRAVITY_M_S2, 0.05):
            self._start_ns = None
            return
        self._start_ns = stamp_ns
        self._from = self._as_rad = self._as_deg = _unit(accel)

    def _vote(self, moved: float, now: tuple[float, float, float]) -> None:
        rad_fits = math.dist(self._as_rad, now) < 0.25 * moved
        deg_fits = math.dist(self._as_deg, now) < 0.25 * moved
        if rad_fits != deg_fits:
            self._score += 1 if rad_fits else -1


def _turned(d: tuple[float, float, float], w: Sequence[float], dt: float) -> tuple[float, float, float]:
    x = d[0] - (w[1] * d[2] - w[2] * d[1]) * dt
    y = d[1] - (w[2] * d[0] - w[0] * d[2]) * dt
    z = d[2] - (w[0] * d[1] - w[1] * d[0]) * dt
    return _unit((x, y, z))


def _unit(v: Sequence[float]) -> tuple[float, float, float]:
    n = _norm(v) or 1.0
    return (v[0] / n, v[1] / n, v[2] / n)


def _norm(v: Sequence[float]) -> float:
    return math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


def _near(value: float, target: float, band: float = _BAND) -> bool:
    return abs(value - target) <= band * target


def _wrong_acceleration(found: str) -> Rejection:
    return Rejection(Reason.UNITS_ACCELERATION, f"{found}; expected m/s² (9.81 at rest), convert in the driver")


def _wrong_rate(found: str) -> Rejection:
    return Rejection(Reason.UNITS_GYRO, f"{found}; expected rad/s, convert in the driver")
