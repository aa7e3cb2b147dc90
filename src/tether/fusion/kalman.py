"""Motion of a cube on the ground against the base, from the base's IMU: mean and covariance through time.

The state is kept at the IMU's own place, so that no lever arm has to be differentiated. With c the cube from the IMU
and u the IMU's velocity, both in the base's axes, w the base's turning rate, f the specific force, g gravity there:

    dc/dt = -w x c - u        du/dt = f + g - w x u        (the cube lies still on the ground)

Horizontal parts are states, the cube's height follows from its known size. Roll and pitch, which let gravity into the
accelerometer, follow the gyro and are level on average; accelerometer and gyro biases wander. Without readings u is
taken for constant under a strong disturbance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether.contracts import F64
from tether.fusion.classic_config import CubeBelief, ImuBelief
from tether.fusion.imu_track import Piece

CUBE = slice(0, 2)
VELOCITY = slice(2, 4)
TILT = slice(4, 6)
ACCEL_BIAS = slice(6, 8)
GYRO_BIAS = slice(8, 11)
SIZE = slice(11, 13)
N_STATES = 13
"""cube x y (m), velocity x y (m/s), roll pitch (rad), accelerometer bias x y, gyro bias x y z, box width height (1)."""
GRAVITY_M_S2 = 9.81


@dataclass(frozen=True, eq=False)
class Belief:
    """Mean (N_STATES,) and covariance (N_STATES, N_STATES) at a time."""

    stamp_ns: int
    x: F64
    P: F64


@dataclass(frozen=True, eq=False)
class Relative:
    """Cube in the base frame, each (3,): position, velocity, acceleration; covariance (2, 2) of x and y."""

    p: F64
    v: F64
    a: F64
    covariance: F64


class CubeMotion:
    """The process model. p_base_imu: (3,) place of the IMU, whose axes are the base's."""

    def __init__(self, p_base_imu: F64, cube: CubeBelief, imu: ImuBelief) -> None:
        self._imu_at = (float(p_base_imu[0]), float(p_base_imu[1]), float(p_base_imu[2]))
        self._half_m = cube.side_m / 2.0
        self._cube = cube
        self._imu = imu

    def begin(self, stamp_ns: int, p_base_cube: F64, sigma_m: float, size_sigma: float) -> Belief:
        """The belief after the cube was first seen."""
        x = np.zeros(N_STATES)
        x[0], x[1] = p_base_cube[0] - self._imu_at[0], p_base_cube[1] - self._imu_at[1]
        x[SIZE] = 1.0
        sigma = np.zeros(N_STATES)
        sigma[CUBE] = sigma_m
        sigma[VELOCITY] = self._cube.velocity_m_s
        sigma[TILT] = self._imu.tilt_rad
        sigma[ACCEL_BIAS] = self._imu.accel_bias_m_s2
        sigma[GYRO_BIAS] = self._imu.gyro_bias_rad_s
        sigma[SIZE] = size_sigma
        return Belief(stamp_ns, x, np.diag(sigma**2))

    def moved(self, belief: Belief, p_base_cube: F64, sigma_m: float, size_sigma: float) -> Belief:
        """The belief after the cube was found elsewhere: place and size are new, the velocity is doubtful."""
        fresh = self.begin(belief.stamp_ns, p_base_cube, sigma_m, size_sigma)
        x, P = belief.x.copy(), belief.P.copy()
        for part in (CUBE, SIZE):
            x[part] = fresh.x[part]
            P[part, :] = P[:, part] = 0.0
            P[part, part] = fresh.P[part, part]
        P[VELOCITY, VELOCITY] += np.eye(2) * self._cube.velocity_m_s**2
        return Belief(belief.stamp_ns, x, P)

    def place(self, x: F64) -> F64:
        """(3,) place of the cube in the base frame, on level ground: the tilt is too uncertain to say better."""
        return np.array([x[0] + self._imu_at[0], x[1] + self._imu_at[1], self._half_m])

    def propagate(self, belief: Belief, to_ns: int, pieces: Sequence[Piece], pushed_s: float) -> Belief:
        """The belief at `to_ns`; `pieces` cover the time between. pushed_s: for how long of it the cube may have
        been pushed."""
        whole_s = sum(p.dt_s for p in pieces)
        if whole_s <= 0.0:
            return Belief(to_ns, belief.x, belief.P)
        covered_s = sum(p.dt_s for p in pieces if p.covered)
        x = self._mean(belief.x, pieces)
        F = self._transition(belief.x, pieces, whole_s, covered_s)
        P = F @ belief.P @ F.T + self._noise(whole_s, covered_s)
        P[CUBE, CUBE] += np.eye(2) * self._cube.pushed_m_sqrt_s**2 * pushed_s
        return Belief(to_ns, x, 0.5 * (P + P.T))

    def relative(self, belief: Belief, newest: Piece | None) -> Relative:
        """What a tool on the base has to follow. newest: mean of the last readings, None where there are none."""
        x = belief.x
        if newest is None:
            newest = Piece(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False)
        rate, change = self._rates(x, newest)
        wz = newest.wz - x[10]
        if not newest.covered:
            wz = 0.0
        # d/dt of dc/dt = -w x c - u, without the turning rate's own change, which the tilt hardly shows.
        ax, ay = wz * rate[1] - change[0], -wz * rate[0] - change[1]
        return Relative(
            p=self.place(x),
            v=np.array([rate[0], rate[1], 0.0]),
            a=np.array([ax, ay, 0.0]),
            covariance=belief.P[CUBE, CUBE],
        )

    def _rates(self, x: Sequence[float] | F64, u: Piece) -> tuple[tuple[float, float], tuple[float, float]]:
        """Rates of cube and velocity, horizontal parts."""
        cx, cy, vx, vy, roll, pitch = x[0], x[1], x[2], x[3], x[4], x[5]
        if not u.covered:
            return (-vx, -vy), (0.0, 0.0)
        wx, wy, wz = u.wx - x[8], u.wy - x[9], u.wz - x[10]
        cz = self._half_m - self._imu_at[2]
        rate = (wz * cy - wy * cz - vx, wx * cz - wz * cx - vy)
        change = (
            u.fx - x[6] + GRAVITY_M_S2 * pitch + wz * vy,
            u.fy - x[7] - GRAVITY_M_S2 * roll - wz * vx,
        )
        return rate, change

    def _mean(self, x: F64, pieces: Sequence[Piece]) -> F64:
        """Mean carried through the pieces, to second order in each. Plain floats: arrays this small are slower."""
        s = [float(value) for value in x]
        for u in pieces:
            dt = u.dt_s
            (rx, ry), (cx, cy) = self._rates(s, u)
            s[0] += (rx - 0.5 * cx * dt) * dt
            s[1] += (ry - 0.5 * cy * dt) * dt
            s[2] += cx * dt
            s[3] += cy * dt
            if u.covered:
                s[4] += (u.wx - s[8]) * dt
                s[5] += (u.wy - s[9]) * dt
        return np.array(s)

    def _transition(self, x: F64, pieces: Sequence[Piece], whole_s: float, covered_s: float) -> F64:
        """exp(A t) to second order, A with the mean turning rate; a few hundredths of a second at a time."""
        share = covered_s / whole_s
        A = np.zeros((N_STATES, N_STATES))
        A[0, 2] = A[1, 3] = -1.0
        if share > 0.0:
            wz = sum(p.wz * p.dt_s for p in pieces if p.covered) / covered_s - x[10]
            cz = self._half_m - self._imu_at[2]
            A[0, 1], A[1, 0] = wz * share, -wz * share
            A[2, 3], A[3, 2] = wz * share, -wz * share
            A[0, 9], A[0, 10] = cz * share, -x[1] * share
            A[1, 8], A[1, 10] = -cz * share, x[0] * share
            A[2, 5], A[3, 4] = GRAVITY_M_S2 * share, -GRAVITY_M_S2 * share
            A[2, 6] = A[3, 7] = -share
            A[4, 8] = A[5, 9] = -share
        step = A * whole_s
        F: F64 = np.eye(N_STATES) + step + 0.5 * (step @ step)
        return F

    def _noise(self, whole_s: float, covered_s: float) -> F64:
        imu, bare_s = self._imu, whole_s - covered_s
        Q = np.zeros((N_STATES, N_STATES))
        accel = imu.accel_density_m_s2_sqrt_hz**2 * covered_s + imu.manoeuvre_density_m_s2_sqrt_hz**2 * bare_s
        for c, v in ((0, 2), (1, 3)):
            Q[c, c] = accel * whole_s**2 / 3.0
            Q[c, v] = Q[v, c] = -accel * whole_s / 2.0
            Q[v, v] = accel
        Q[TILT, TILT] = np.eye(2) * (
            imu.gyro_density_rad_s_sqrt_hz**2 * covered_s + imu.tilt_rad**2 * bare_s / imu.tilt_memory_s
        )
        Q[ACCEL_BIAS, ACCEL_BIAS] = np.eye(2) * imu.accel_walk_m_s2_sqrt_s**2 * whole_s
        Q[GYRO_BIAS, GYRO_BIAS] = np.eye(3) * imu.gyro_walk_rad_s_sqrt_s**2 * whole_s
        return Q


def corrected(belief: Belief, innovation: F64, H: F64, R: F64) -> Belief:
    """Kalman update in Joseph's form. innovation: (m,), H: (m, N_STATES), R: (m, m)."""
    S = H @ belief.P @ H.T + R
    K = np.linalg.solve(S, H @ belief.P).T
    left = np.eye(N_STATES) - K @ H
    P = left @ belief.P @ left.T + K @ R @ K.T
    return Belief(belief.stamp_ns, belief.x + K @ innovation, 0.5 * (P + P.T))


def told(belief: Belief, state: int, value: float, variance: float) -> Belief:
    """Kalman update by a direct measurement of one state."""
    column = belief.P[:, state]
    gain = column / (column[state] + variance)
    x = belief.x + gain * (value - belief.x[state])
    return Belief(belief.stamp_ns, x, belief.P - np.outer(gain, column))
