"""Forward kinematics along a chain of joints, with everything constant worked out beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tether.arrays import read_only
from tether.robot.parts import F64, Joint
from tether.robot.raw import JointType

Source = tuple[int, float, float]
"""Where a joint's position comes from: index into the vector of positions, multiplier, offset."""


@dataclass(frozen=True, eq=False)
class Step:
    """Transform of one moving joint, fixed ones before it included: a + c·b + s·d with c, s of its position.

    Revolute: c, s = cos, sin. Prismatic: c = position, and d is not used.
    """

    index: int
    multiplier: float
    offset: float
    turns: bool
    axis: F64
    a: F64
    b: F64
    d: F64


@dataclass(frozen=True, eq=False)
class Chain:
    """Moving joints from one link down to another, and the fixed transform after the last of them (4, 4)."""

    steps: tuple[Step, ...]
    tail: F64

    @property
    def empty(self) -> bool:
        """Whether it leads from a link to itself."""
        return not self.steps and self.tail is IDENTITY


IDENTITY = read_only(np.eye(4))


def _step(joint: Joint, before: F64, source: Source) -> Step:
    """Split a joint's transform into constant matrices: a pose then costs one product a joint."""
    still, cosine, sine = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    still[3, 3] = 1.0
    if joint.type is JointType.PRISMATIC:
        still[:3, :3] = np.eye(3)
        cosine[:3, 3] = joint.axis
        return Step(*source, False, joint.axis, before @ still, before @ cosine, sine)
    x, y, z = joint.axis
    still[:3, :3] = np.outer(joint.axis, joint.axis)
    cosine[:3, :3] = np.eye(3) - still[:3, :3]
    sine[:3, :3] = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return Step(*source, True, joint.axis, before @ still, before @ cosine, before @ sine)


def poses(chain: Chain, values: F64) -> list[F64]:
    """Return the (4, 4) poses of the child link of each moving joint of a chain, then that at its end.

    values: (n,) positions of the commanded joints.
    """
    out: list[F64] = []
    pose: F64 = IDENTITY
    for step in chain.steps:
        position = step.multiplier * float(values[step.index]) + step.offset
        if step.turns:
            here = step.a + math.cos(position) * step.b + math.sin(position) * step.d
        else:
            here = step.a + position * step.b
        pose = pose @ here if out else here
        out.append(pose)
    out.append(pose @ chain.tail)
    return out


def jacobian(chain: Chain, values: F64) -> F64:
    """Return the (6, n) Jacobian of the chain's end in the axes of its upper link: linear, then angular.

    The child frame of a joint has its origin on the joint's axis, which the joint's own motion leaves in place.
    """
    *frames, end = poses(chain, values)
    tip = end[:3, 3]
    out = np.zeros((6, len(values)))
    for step, frame in zip(chain.steps, frames, strict=True):
        axis = step.multiplier * (frame[:3, :3] @ step.axis)
        if step.turns:
            x, y, z = axis
            dx, dy, dz = tip - frame[:3, 3]
            out[:, step.index] += (y * dz - z * dy, z * dx - x * dz, x * dy - y * dx, x, y, z)
        else:
            out[:3, step.index] += axis
    return out


def chain(joints: Sequence[Joint], source: Callable[[Joint], Source]) -> Chain:
    """Return the chain along joints, the one nearest to the upper link first."""
    steps: list[Step] = []
    before = IDENTITY
    for joint in joints:
        before = before @ joint.pose_parent_joint
        if joint.type is not JointType.FIXED:
            steps.append(_step(joint, before, source(joint)))
            before = np.eye(4)
    return Chain(tuple(steps), before)
