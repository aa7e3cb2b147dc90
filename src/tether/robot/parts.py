"""The parts of a robot model: joints with their limits, links with their masses. SI units and radians."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.robot.raw import JointType

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class JointLimits:
    """What a joint may do. position: rad (m), ±inf if continuous. velocity: rad/s (m/s). effort: N m (N)."""

    lower: float
    upper: float
    velocity: float
    effort: float


@dataclass(frozen=True)
class Mimic:
    """position = multiplier · position of `joint` + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Joint:
    """One joint. pose_parent_joint: (4, 4) of its frame in the parent link. axis: (3,) unit, in its frame.

    limits: None for fixed joints only. damping: N m s/rad (N s/m); friction: N m (N).
    """

    name: str
    type: JointType
    parent: str
    child: str
    pose_parent_joint: F64
    axis: F64
    limits: JointLimits | None
    mimic: Mimic | None
    damping: float
    friction: float


@dataclass(frozen=True, eq=False)
class Link:
    """One link. p_link_com: (3,) m. inertia_com_kg_m2: (3, 3) about the centre of mass, axes of the link.

    A link without <inertial> (a frame) has mass 0 and zero inertia.
    """

    name: str
    mass_kg: float
    p_link_com: F64
    inertia_com_kg_m2: F64
