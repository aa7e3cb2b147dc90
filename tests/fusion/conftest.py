"""A base that is carried round a circle beside a cube, with the readings and pictures that belong to it exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from tether.assembly import robot
from tether.contracts import F64, CameraModel, ImageFeature, ImuBatch, ImuSample, SampleRef, Stream
from tether.fusion.box_model import BoxModel

MS = 1_000_000
START_NS = 1_000_000_000
CAMERA = CameraModel(320, 240, np.array([[242.2, 0.0, 159.5], [0.0, 242.2, 119.5], [0.0, 0.0, 1.0]]))


@dataclass(frozen=True)
class Carried:
    """Circle of radius_m at speed_m_s that turns about every `leg_s`; the cube stands at (0.26, 0.01) of its centre."""

    radius_m: float = 0.045
    speed_m_s: float = 0.20
    leg_s: float = 1.1
    accel_bias: tuple[float, float] = (0.0, 0.0)

    def _angle(self, t_s: float) -> tuple[float, float, float]:
        """Angle, rate and acceleration: rate is a rounded square wave."""
        w, k = self.speed_m_s / self.radius_m, 8.0
        phase = math.pi * t_s / self.leg_s
        s, c = math.sin(phase), math.cos(phase)
        rate = w * math.tanh(k * s)
        accel = w * k * c * math.pi / self.leg_s / math.cosh(k * s) ** 2
        steps = np.linspace(0.0, t_s, max(int(t_s * 2000), 2))
        angle = float(np.trapezoid(w * np.tanh(k * np.sin(np.pi * steps / self.leg_s)), steps))
        return angle, rate, accel

    def cube(self, stamp_ns: int) -> F64:
        """(3,) cube in the base frame."""
        angle, _, _ = self._angle((stamp_ns - START_NS) * 1e-9)
        return np.array([0.26 - self.radius_m * math.cos(angle), 0.01 - self.radius_m * math.sin(angle), 0.012])

    def imu(self, stamp_ns: int, sequence: int = 0) -> ImuSample:
        """The IMU's reading."""
        angle, rate, accel = self._angle((stamp_ns - START_NS) * 1e-9)
        c, s, r = math.cos(angle), math.sin(angle), self.radius_m
        ax = r * (-c * rate**2 - s * accel) + self.accel_bias[0]
        ay = r * (-s * rate**2 + c * accel) + self.accel_bias[1]
        ref = SampleRef(Stream.IMU, stamp_ns, sequence)
        return ImuSample(ref, np.zeros(3), np.array([ax, ay, 9.81]))

    def picture(self, stamp_ns: int, hide: tuple[float, float, float, float] = (0, 0, 0, 0)) -> ImageFeature:
        """A picture's detection; hide: how far each edge (x1, y1, x2, y2) is moved."""
        return picture_of(self.cube(stamp_ns), stamp_ns, hide)


def picture_of(p_base_cube: F64, stamp_ns: int, hide: tuple[float, float, float, float] = (0, 0, 0, 0)) -> ImageFeature:
    """The detection of a cube at p_base_cube."""
    box = BoxModel(robot(), "camera_optical_frame", 0.024).edges_of(p_base_cube, CAMERA)
    assert box is not None
    row = [*(box + np.array(hide)), 0.9, 0.0]
    return ImageFeature(SampleRef(Stream.CAMERA, stamp_ns, 0), CAMERA, np.array([row], np.float32))


def batch_of(samples: list[ImuSample]) -> ImuBatch:
    """Samples as one batch."""
    return ImuBatch(0, 0, samples[-1].ref.stamp_ns, tuple(samples))


@pytest.fixture
def carried() -> Carried:
    return Carried()


@pytest.fixture
def picture() -> object:
    return picture_of
