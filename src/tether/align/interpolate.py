"""Ways to tell a value between two samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from tether.contracts import ImuSample, JointSample, TruthSample
from tether.rotations import slerp

T = TypeVar("T")


class Interpolator(Protocol[T]):
    """Value at `share` (0 to 1) of the time from the sample `before` to the sample `after`."""

    def __call__(self, before: T, after: T, share: float) -> T:
        """Must not change its arguments."""


def linear(before: Any, after: Any, share: float) -> Any:
    """Straight line between numbers or arrays; meets both ends exactly."""
    return before * (1.0 - share) + after * share


def rotation(before: Any, after: Any, share: float) -> Any:
    """Constant angular velocity the short way between quaternions x, y, z, w; None where one is missing."""
    if before is None or after is None:
        return None
    return slerp(before, after, share)


def planar_pose(before: Any, after: Any, share: float) -> Any:
    """Straight line in x and y, the short way round in yaw; (3,) arrays x, y (m), yaw (rad)."""
    step = after - before
    step[2] = math.remainder(step[2], 2.0 * math.pi)
    return before + step * share


def by_field(kind: type[T], interpolators: Mapping[str, Interpolator[Any]]) -> Interpolator[T]:
    """Interpolator of the frozen dataclass `kind`: named fields each by their own, the others held.

    Raises ValueError for a field that `kind` does not have.
    """
    unknown = sorted(set(interpolators) - {f.name for f in fields(kind)})  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")

    def interpolate(before: T, after: T, share: float) -> T:
        made = {
            name: between(getattr(before, name), getattr(after, name), share) for name, between in interpolators.items()
        }
        return replace(before, **made)  # type: ignore[type-var]

    return interpolate


IMU = by_field(
    ImuSample,
    {
        "angular_velocity_rad_s": linear,
        "linear_acceleration_m_s2": linear,
        "orientation_xyzw": rotation,
    },
)
"""Of ImuSample. `ref` stays that of the sample before."""

JOINTS = by_field(JointSample, {"position": linear, "velocity": linear})
"""Of JointSample, both in the same order of joints."""

TRUTH = by_field(
    TruthSample,
    {
        "p_base_cube": linear,
        "v_base_cube": linear,
        "p_world_base": planar_pose,
        "base_twist": linear,
        "joint_position": linear,
        "joint_velocity": linear,
        "cube_height_m": linear,
    },
)
"""Of TruthSample. `held` and `ref` stay those of the sample before."""
