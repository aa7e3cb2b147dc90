"""Late boxes carried to the present: a straight-line fit that the IMU makes straight.

Let c be the cube from the IMU and u the IMU's velocity over ground, in the base's axes of now (t). A box of stamp s
that puts the cube at c_s, in the axes of then, satisfies, the cube lying still on the ground,

    R(s → t) c_s + J(s) = c + u · (t - s) + b · (t - s)² / 2,    J(s) = ∫ from s to t of (σ - s) f(σ) dσ,

with f the horizontal specific force in the axes of now and b what is constant in its error over the window: gravity
through the present tilt, and the accelerometer's bias. So c, u and b are a least-squares fit over the last boxes, b
held near zero by what is known of it. Without an IMU, R = 1, J = 0, and b is the motion's own acceleration.

A box that something hides in part lies off the line: two rounds of Cauchy weights take it out (Huber and Ronchetti,
Robust Statistics, 2009, chapter 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.contracts import F64

GRAVITY_M_S2 = 9.81
_BOX_SIGMA_M = 0.0015
_OUTLIER_M = 0.004
_BIAS_SIGMA_M_S2 = 0.08
_MANOEUVRE_SIGMA_M_S2 = 1.0
_STILL_SIGMA_M_S2 = 1e-4
"""An acceleration that is held at zero."""
_SPEED_SIGMA_M_S = 0.3
_ROUNDS = 3
_SMOOTH_S = 0.015


@dataclass(frozen=True, eq=False)
class Carried:
    """The cube against the base now: p, v, a, each (2,) along base x and y.

    off_m: (n, 2) how far each box lies off the fit; rms_m: their weighted root mean square.
    """

    p: F64
    v: F64
    a: F64
    off_m: F64
    rms_m: float


class ImuCurve:
    """Integrals of an IMU window backwards from now, to be read at any moment before."""

    def __init__(self, age_s: F64, values: F64) -> None:
        """age_s: (n,) falling, ≥ 0, n ≥ 1; values: (6, n) gyro x y z (rad/s), specific force x y z (m/s²)."""
        ages = np.append(age_s, 0.0) if age_s[-1] > 0.0 else age_s
        w = values[:3] if len(ages) == values.shape[1] else np.hstack((values[:3], values[:3, -1:]))
        f = values[3:5] if len(ages) == values.shape[1] else np.hstack((values[3:5], values[3:5, -1:]))
        angle = _backwards(ages, w)
        level = f + GRAVITY_M_S2 * np.array([-angle[1], angle[0]])
        cos, sin = np.cos(angle[2]), np.sin(angle[2])
        force = np.array([cos * level[0] + sin * level[1], cos * level[1] - sin * level[0]])
        self._age = ages[::-1]
        self._yaw = angle[2][::-1]
        self._speed = _backwards(ages, force)[:, ::-1]
        self._shift = _backwards(ages, self._speed[:, ::-1])[:, ::-1]
        recent = ages <= age_s[-1] + _SMOOTH_S
        self.rate = float(w[2, recent].mean())
        self.force: F64 = force[:, recent].mean(axis=1)

    def at(self, age_s: F64) -> tuple[F64, F64]:
        """Yaw turned since (n,) and shift J (n, 2), for moments of age (n,); beyond the window the force is zero."""
        yaw = np.interp(age_s, self._age, self._yaw)
        beyond = np.maximum(age_s - self._age[-1], 0.0)
        shift = [np.interp(age_s, self._age, j) + beyond * v[-1] for j, v in zip(self._shift, self._speed, strict=True)]
        return yaw, np.array(shift).T


def carry(p_base: F64, age_s: F64, p_base_imu: F64, imu: ImuCurve | None) -> Carried:
    """p_base: (n, 2) places of the cube at its boxes' stamps, n ≥ 1; age_s: (n,) of the boxes; p_base_imu: (2,)."""
    c = p_base - p_base_imu
    if imu is None:
        rate, force = 0.0, np.zeros(2)
        bias_sigma = _MANOEUVRE_SIGMA_M_S2
    else:
        rate, force = imu.rate, imu.force
        bias_sigma = _BIAS_SIGMA_M_S2
        yaw, shift = imu.at(age_s)
        cos, sin = np.cos(yaw), np.sin(yaw)
        c = np.array([cos * c[:, 0] + sin * c[:, 1], cos * c[:, 1] - sin * c[:, 0]]).T + shift
    x, off, weight = _fit(c, age_s, bias_sigma)
    u, b = x[1], x[2]
    v = np.array([rate * x[0, 1] - u[0], -rate * x[0, 0] - u[1]])
    change = force - b if imu is not None else -b
    change = change + rate * np.array([u[1], -u[0]])
    a = np.array([rate * v[1] - change[0], -rate * v[0] - change[1]])
    rms = float(np.sqrt((weight * (off**2).sum(axis=1)).sum() / weight.sum()))
    return Carried(x[0] + p_base_imu, v, a, off, rms)


def straight_line(p_base: F64, age_s: F64) -> tuple[F64, F64]:
    """Place and speed now, each (2,), of a straight line at constant speed through places (n, 2); no IMU."""
    x, _, _ = _fit(p_base, age_s, _STILL_SIGMA_M_S2)
    return x[0], -x[1]


def _fit(y: F64, age_s: F64, bias_sigma: float) -> tuple[F64, F64, F64]:
    """Rows c, u, b (3, 2), what is left of each box (n, 2), and the boxes' weights (n,)."""
    A = np.stack((np.ones_like(age_s), age_s, 0.5 * age_s**2), axis=1)
    prior = np.diag([0.0, (_BOX_SIGMA_M / _SPEED_SIGMA_M_S) ** 2, (_BOX_SIGMA_M / bias_sigma) ** 2])
    weight = np.ones(len(y))
    x, off = np.zeros((3, 2)), y
    for _ in range(_ROUNDS):
        weighted = A * weight[:, None]
        x = np.linalg.solve(A.T @ weighted + prior, weighted.T @ y)
        off = y - A @ x
        weight = 1.0 / (1.0 + (off**2).sum(axis=1) / _OUTLIER_M**2)
    return x, off, weight


def _backwards(age_s: F64, values: F64) -> F64:
    """Integral of values (m, n) from each moment to the last, by trapezoids; age_s (n,) falling."""
    steps = 0.5 * (values[:, 1:] + values[:, :-1]) * (age_s[:-1] - age_s[1:])
    total = np.zeros_like(values)
    total[:, :-1] = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    return total
