"""What an alternative sees of a decision: the policy's own estimate and the arm, from the sensors alone."""

from __future__ import annotations

import hashlib

import numpy as np

from tether.contracts import F32, FusedState
from tether.motion.kinematics import ArmKinematics
from tether.robot.model import reorder
from tether.robot.roles import COMMAND_JOINTS

FIELDS = (
    ("p_base_cube", "m", 3),
    ("v_base_cube", "m/s", 3),
    ("tool", "m", 3),
    ("opening", "m", 1),
    ("sigma", "m", 1),
)
"""Name, unit and size of each part of the vector; the tool is its centre point in the base frame as measured."""
SIZE = sum(size for _, _, size in FIELDS)


def layout_sha256() -> str:
    """Hash over names, units and sizes; part of each model's manifest."""
    return hashlib.sha256(repr(FIELDS).encode()).hexdigest()


def state_vector(state: FusedState, kinematics: ArmKinematics) -> F32 | None:
    """(SIZE,) of a decision; None where the cube is not known or no joint reading has come."""
    joints, estimate = state.joints, state.estimate
    if joints is None or not estimate.valid:
        return None
    position = reorder(joints.names, joints.position, COMMAND_JOINTS, "joint reading")
    opening = 2.0 * float(position[-1])
    parts = (estimate.p_base_cube, estimate.v_base_cube, kinematics.tcp(position), (opening, estimate.sigma_m))
    vector: F32 = np.concatenate(parts).astype(np.float32)
    return vector
