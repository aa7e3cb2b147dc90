"""What subgoals are judged by, whether it comes from the world's state or from the robot's own sensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether.contracts import Command, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.motion.kinematics import ArmKinematics
from tether.robot.roles import GRIPPER_JOINT


@dataclass(frozen=True)
class Measured:
    """One moment. None where it is not known, which fulfils no condition.

    flat_m, above_m: from the tool to the cube's centre, horizontally, and the tool's height above it. opening_m and
    commanded_opening_m: between the pads, as read and as last executed. gripping: both fingers press on the cube.
    cube_height_m: of its centre, above where it rests on the ground.
    """

    stamp_ns: int
    flat_m: float | None
    above_m: float | None
    opening_m: float | None
    commanded_opening_m: float | None
    gripping: bool
    cube_height_m: float | None

    def __post_init__(self) -> None:
        faults = [
            Fault(name, repr(value), "a finite number")
            for name in ("flat_m", "above_m", "opening_m", "commanded_opening_m", "cube_height_m")
            if (value := getattr(self, name)) is not None and not math.isfinite(value)
        ]
        if faults:
            raise InvalidInputError("measurement for rewards", faults)


def commanded_opening_m(command: Command) -> float:
    """Opening between the pads that an executed command asks for; each finger goes half of it."""
    return 2.0 * float(command.position[command.joint_names.index(GRIPPER_JOINT)])


def measured_of_truth(truth: TruthSample, executed: Command | None, kinematics: ArmKinematics) -> Measured:
    """From the world's state and the command that was executed up to it (None before there was any)."""
    gap = truth.p_base_cube - kinematics.tcp(truth.joint_position)
    return Measured(
        stamp_ns=truth.ref.stamp_ns,
        flat_m=float(np.hypot(gap[0], gap[1])),
        above_m=-float(gap[2]),
        opening_m=2.0 * float(truth.joint_position[-1]),
        commanded_opening_m=None if executed is None else commanded_opening_m(executed),
        gripping=truth.held,
        cube_height_m=truth.cube_height_m,
    )
