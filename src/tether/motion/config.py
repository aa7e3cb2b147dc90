"""Settings of the motion layer: the nominal servo lag that is compensated, speeds, and tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether.config import bounded, load


@dataclass(frozen=True)
class LagModel:
    """The nominal lag between a command and the joint: dead time, then first order. What is known, not what is true."""

    dead_time_s: float = bounded(0.0, 0.3, unit="s")
    time_constant_s: float = bounded(0.0, 1.0, unit="s")


@dataclass(frozen=True)
class MotionConfig:
    """See config/motion.yaml. Lengths in m, speeds in m/s, the yaw of the fingers in the base frame."""

    grip_yaw_rad: float = bounded(-1.57, 1.57, unit="rad", doc="fingers' travel against base y, seen from above")
    approach_speed_m_s: float = bounded(0.05, 1.0, unit="m/s")
    acceleration_m_s2: float = bounded(0.5, 20.0, unit="m/s^2")
    hover_m: float = bounded(0.02, 0.2, unit="m", doc="height over the cube from which a grasp descends")
    align_m: float = bounded(0.001, 0.05, unit="m", doc="horizontal error below which a grasp descends")
    level_m: float = bounded(0.001, 0.05, unit="m", doc="error of height below which the gripper closes")
    opening_m: float = bounded(0.02, 0.1, unit="m", doc="between the pads, when open for a grasp")
    stall_m_s: float = bounded(0.0005, 0.05, unit="m/s", doc="finger speed below which a closing gripper has stalled")
    stall_s: float = bounded(0.02, 1.0, unit="s", doc="for how long")
    close_s: float = bounded(0.1, 3.0, unit="s", doc="after that long a closing gripper is taken to have closed")
    extrapolate_s: float = bounded(0.05, 2.0, unit="s", doc="an estimate is never carried on for longer")
    decision_s: float = bounded(
        0.1, 2.0, unit="s", default=0.5, doc="a decision older than that moves nothing: nobody decides any more"
    )


def load_motion_config(path: Path) -> MotionConfig:
    """Read and check config/motion.yaml."""
    return load(path, MotionConfig)
