"""Motion of the base in pick_moving: within its stated limits, and what of it nobody can foresee."""

from __future__ import annotations

import numpy as np
import pytest

from tether.assembly import profile, task
from tether.contracts import F64
from tether.world.carrier import CarrierPath
from tether.world.task import CarrierSpec

_DT = 0.0025


def _spec() -> CarrierSpec:
    carrier = task("pick_moving").carrier
    assert carrier is not None
    return carrier


def _path(seed: int, blocks: int = 4) -> tuple[F64, F64, F64]:
    path = CarrierPath(_spec(), _DT, np.random.default_rng(seed))
    parts = [path.block() for _ in range(blocks)]
    p, v, a = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return p, v, a


@pytest.mark.parametrize("seed", range(4))
def test_base_stays_on_its_circle_within_speed_and_acceleration(seed: int) -> None:
    spec = _spec()
    p, v, _ = _path(seed)
    np.testing.assert_allclose(np.hypot(p[:, 0], p[:, 1]), spec.radius_m, rtol=1e-9)
    rate = (p[:, 0] * v[:, 1] - p[:, 1] * v[:, 0]) / spec.radius_m**2
    assert np.abs(rate).max() * spec.radius_m <= spec.speed_m_s[1] * 1.001
    accel = np.diff(rate) / _DT
    assert np.abs(accel).max() <= spec.acceleration_rad_s2 * 1.001
    assert np.abs(np.diff(accel)).max() / _DT <= spec.jerk_rad_s3 * 1.001


@pytest.mark.parametrize("seed", range(4))
def test_position_velocity_and_acceleration_belong_together_across_blocks(seed: int) -> None:
    p, v, a = _path(seed)
    np.testing.assert_allclose((p[2:] - p[:-2]) / (2 * _DT), v[1:-1], atol=2e-4)
    np.testing.assert_allclose((v[2:] - v[:-2]) / (2 * _DT), a[1:-1], atol=0.02)


def test_direction_changes_at_random_moments_within_the_stated_interval() -> None:
    spec = _spec()
    p, v, _ = _path(11, blocks=40)
    rate = p[:, 0] * v[:, 1] - p[:, 1] * v[:, 0]
    turns = np.flatnonzero(np.diff(np.sign(rate[10:])) != 0)
    gaps = np.diff(turns) * _DT
    assert len(gaps) > 100
    assert gaps.min() >= spec.interval_s[0] - 0.1 and gaps.max() <= spec.interval_s[1] + 0.1
    assert gaps.std() > 0.2
    share = (np.abs(rate) / spec.radius_m >= 0.10).mean()
    assert share > 0.7, "the base is to move at 0.10 to 0.20 m/s most of the time"


def test_a_picture_of_120_ms_ago_is_wrong_by_more_than_the_gripper_forgives() -> None:
    p, _, _ = _path(3)
    back = round(0.120 / _DT)
    moved = np.hypot(*(p[back:, :2] - p[:-back, :2]).T)
    assert np.median(moved) > 0.020
    assert (moved > 0.010).mean() > 0.85


def test_motion_nobody_can_foresee_over_imu_age_and_servo_lag_stays_below_4_mm() -> None:
    """Sensor age (5 ms at most) plus servo lag (dead time and time constant, 130 ms, and 3 ms of mechanics)."""
    act, imu = profile("real").actuation, profile("real").imu.delay
    assert imu.latency_s + imu.jitter_s <= 0.005
    horizon_s = 0.005 + act.dead_time_s + act.time_constant_s + 0.003
    bound_m = _spec().unpredictable_m(horizon_s)
    assert bound_m <= 0.004
    # The best a predictor can do that knows angle, rate and acceleration now: keep the acceleration.
    spec, h = _spec(), round(horizon_s / _DT)
    p, v, _ = _path(5, blocks=8)
    theta = np.unwrap(np.arctan2(p[:, 1], p[:, 0]))
    rate = (p[:, 0] * v[:, 1] - p[:, 1] * v[:, 0]) / spec.radius_m**2
    accel = np.gradient(rate, _DT)
    ahead = theta[:-h] + rate[:-h] * h * _DT + 0.5 * accel[:-h] * (h * _DT) ** 2
    missed_m = spec.radius_m * np.abs(theta[h:] - ahead)
    assert missed_m.max() <= bound_m * 1.05
    assert np.percentile(missed_m, 95) <= 0.004
