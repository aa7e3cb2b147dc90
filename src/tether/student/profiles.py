"""Profiles drawn around a given one: what the student trains under, so that it survives profiles it never saw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether.config import bounded
from tether.world.profile import Delay, Profile, VariationProfile


@dataclass(frozen=True)
class Spread:
    """Ranges from which a profile is drawn. Factors multiply the given profile's figures.

    exact: share of draws that are the given profile itself.
    """

    exact: float = bounded(0.0, 1.0, default=0.4)
    camera_latency_s: tuple[float, float] = bounded(0.0, 1.0, default=(0.0, 0.26))
    camera_jitter_s: tuple[float, float] = bounded(0.0, 0.2, default=(0.0, 0.03))
    camera_drop: tuple[float, float] = bounded(0.0, 0.9, default=(0.0, 0.05))
    imu_latency_s: tuple[float, float] = bounded(0.0, 0.1, default=(0.001, 0.006))
    noise: tuple[float, float] = bounded(0.0, 10.0, default=(0.3, 1.6))
    lag: tuple[float, float] = bounded(0.1, 4.0, default=(0.75, 1.25))
    lag_scale: tuple[float, float] = bounded(0.5, 2.0, default=(0.88, 1.12))
    friction_scale: tuple[float, float] = bounded(0.2, 3.0, default=(0.7, 1.3))
    mass_scale: tuple[float, float] = bounded(0.2, 5.0, default=(0.6, 1.7))
    light_scale: tuple[float, float] = bounded(0.1, 3.0, default=(0.6, 1.4))
    camera_position_m: tuple[float, float] = bounded(0.0, 0.05, default=(0.0, 0.003))
    camera_rotation_rad: tuple[float, float] = bounded(0.0, 0.2, default=(0.0, 0.007))


def draw(base: Profile, spread: Spread, rng: np.random.Generator) -> Profile:
    """A profile named as `base`, drawn from `spread`; the same for the same generator state."""
    if rng.random() < spread.exact:
        return base
    latency, jitter, drop, imu_latency, noise, lag, position, rotation = (
        float(rng.uniform(*span))
        for span in (
            spread.camera_latency_s,
            spread.camera_jitter_s,
            spread.camera_drop,
            spread.imu_latency_s,
            spread.noise,
            spread.lag,
            spread.camera_position_m,
            spread.camera_rotation_rad,
        )
    )
    act, imu = base.actuation, base.imu
    return replace(
        base,
        camera=replace(
            base.camera,
            delay=Delay(latency, min(jitter, latency), drop),
            pixel_noise=base.camera.pixel_noise * noise,
        ),
        imu=replace(
            imu,
            delay=Delay(imu_latency, min(imu.delay.jitter_s, imu_latency), imu.delay.drop_probability),
            gyro_noise_rad_s=imu.gyro_noise_rad_s * noise,
            accel_noise_m_s2=imu.accel_noise_m_s2 * noise,
            gyro_bias_rad_s=imu.gyro_bias_rad_s * noise,
            accel_bias_m_s2=imu.accel_bias_m_s2 * noise,
        ),
        joints=replace(
            base.joints,
            position_noise_rad=base.joints.position_noise_rad * noise,
            velocity_noise_rad_s=base.joints.velocity_noise_rad_s * noise,
            gripper_noise_m=base.joints.gripper_noise_m * noise,
        ),
        actuation=replace(act, dead_time_s=act.dead_time_s * lag, time_constant_s=act.time_constant_s * lag),
        variation=VariationProfile(
            spread.friction_scale, spread.mass_scale, spread.light_scale, spread.lag_scale, position, rotation
        ),
    )
