"""Settings of the policy `classic`: what its estimator believes about sensors and motion, and when it acts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether.config import bounded, load


@dataclass(frozen=True)
class CubeBelief:
    """The object: its side, and one-sigma ignorance of the relative velocity when it is first seen."""

    side_m: float = bounded(0.005, 0.1, unit="m")
    velocity_m_s: float = bounded(0.0, 2.0, unit="m/s")
    pushed_m_sqrt_s: float = bounded(0.0, 1.0, doc="random walk of the cube while fingers that close may push it")


@dataclass(frozen=True)
class BoxBelief:
    """How far the edges of a detection may be trusted. All one sigma unless said otherwise.

    edge_px: an edge of a wholly visible object. size: what the object's turn does to the size of its box, relative.
    calibration_m: error of the camera's mounting, as it shows on the ground; no filter can average it away.
    """

    edge_px: float = bounded(0.05, 20.0, unit="px")
    size: float = bounded(0.001, 0.5)
    calibration_m: float = bounded(0.0, 0.05, unit="m")
    min_confidence: float = bounded(0.0, 1.0)
    gate_sigma: float = bounded(1.0, 10.0, doc="innovation beyond which an edge or a box is not believed")
    lost_after: int = bounded(1, 100, doc="so many wholly visible boxes in a row out of the gate: start anew from them")


@dataclass(frozen=True)
class ImuBelief:
    """The IMU and how the ground moves the base; one sigma. `max_gap_s`: longest gap that is bridged by interpolation.

    enabled: false leaves the IMU out and takes the relative velocity for constant (an ablation).
    accel_density covers the sensor's noise and what 200 Hz sampling misses; manoeuvre_density is the acceleration that
    constant velocity leaves unmodelled, used wherever no reading covers the time.
    """

    enabled: bool
    gyro_density_rad_s_sqrt_hz: float = bounded(0.0, 1.0)
    accel_density_m_s2_sqrt_hz: float = bounded(0.0, 10.0)
    manoeuvre_density_m_s2_sqrt_hz: float = bounded(0.0, 100.0)
    gyro_bias_rad_s: float = bounded(0.0, 1.0, unit="rad/s")
    gyro_walk_rad_s_sqrt_s: float = bounded(0.0, 1.0)
    accel_bias_m_s2: float = bounded(0.0, 5.0, unit="m/s^2")
    accel_walk_m_s2_sqrt_s: float = bounded(0.0, 5.0)
    tilt_rad: float = bounded(0.0, 0.5, unit="rad", doc="how uneven the ground is")
    tilt_memory_s: float = bounded(0.05, 100.0, unit="s", doc="after which the ground is level again on average")
    max_gap_s: float = bounded(0.005, 1.0, unit="s")
    smooth_s: float = bounded(0.005, 0.2, unit="s", doc="readings averaged for the acceleration handed on")


@dataclass(frozen=True)
class MemoryConfig:
    """How long things are kept and believed."""

    history_s: float = bounded(0.1, 5.0, unit="s", doc="how late a picture may come and still be used")
    unseen_s: float = bounded(0.1, 10.0, unit="s", doc="without a believed picture for longer: not valid")
    sigma_m: float = bounded(0.001, 0.5, unit="m", doc="position error beyond which the estimate is not valid")


@dataclass(frozen=True)
class GripConfig:
    """What the fingers say. Openings between the pads."""

    open_m: float = bounded(0.0, 0.1, unit="m", doc="at least so far apart: open")
    touch_m: float = bounded(0.0, 0.1, unit="m", doc="below: they may touch the object, however it is turned")
    empty_m: float = bounded(0.0, 0.1, unit="m", doc="below: nothing of the object can be between them")
    stall_m: float = bounded(0.0, 0.01, unit="m", doc="fingers that move less than this have stopped on something")
    stall_s: float = bounded(0.02, 2.0, unit="s", doc="for so long")


@dataclass(frozen=True)
class DecisionConfig:
    """When the policy goes from one step to the next."""

    hover_m: float = bounded(0.02, 0.15, unit="m")
    opening_m: float = bounded(0.02, 0.056, unit="m", doc="between the pads while following")
    aligned_m: float = bounded(0.001, 0.05, unit="m", doc="horizontal error of the tool at which a grasp may begin")
    level_m: float = bounded(0.001, 0.1, unit="m", doc="error of the hover height at which a grasp may begin")
    sure_m: float = bounded(0.001, 0.05, unit="m", doc="sigma of the estimate at which a grasp may begin")
    patience_s: float = bounded(0.0, 20.0, unit="s", doc="after following for longer, a grasp is tried as it is")
    settle_decisions: int = bounded(1, 100)
    lift_m: float = bounded(0.05, 0.2, unit="m")
    lift_speed_m_s: float = bounded(0.05, 0.5, unit="m/s")
    retreat_m: float = bounded(0.05, 0.25, unit="m")
    grasp_limit_s: float = bounded(0.5, 20.0, unit="s", doc="a grasp that has not closed by then is begun anew")
    blind_s: float = bounded(0.1, 10.0, unit="s", doc="nothing seen for longer: take the arm out of the camera's way")
    max_closings: int = bounded(1, 100)
    lead_s: float = bounded(-0.1, 0.3, unit="s")


@dataclass(frozen=True)
class ClassicConfig:
    """See config/classic.yaml."""

    cube: CubeBelief
    box: BoxBelief
    imu: ImuBelief
    memory: MemoryConfig
    grip: GripConfig
    decision: DecisionConfig


def load_classic_config(path: Path) -> ClassicConfig:
    """Read and check config/classic.yaml; raises InvalidInputError with every fault in it."""
    return load(path, ClassicConfig)
