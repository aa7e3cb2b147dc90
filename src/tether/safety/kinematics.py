"""Where a link's origin is, fast enough for every tick: forward kinematics in plain floats.

Made once from the RobotModel; the same tree, so there is no second robot description. At this size plain
floats beat arrays several times over (see `tether bench gate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tether.contracts import F64
from tether.errors import Fault, InvalidInputError
from tether.robot.model import RobotModel
from tether.robot.raw import JointType

Point = tuple[float, float, float]
_Matrix = tuple[float, float, float, float, float, float, float, float, float]
_IDENTITY: _Matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class _Joint:
    """A moving joint and the fixed ones before it. index: its place among the commanded joints."""

    offset: Point
    rotation: _Matrix | None
    axis: Point
    turns: bool
    index: int
    multiplier: float
    shift: float


class PointChain:
    """Position of one link's origin in the root link's frame as a function of the commanded joints."""

    def __init__(self, robot: RobotModel, link: str, joint_names: Sequence[str]) -> None:
        """Raises InvalidInputError for an unknown link and for a joint on the way that is not commanded."""
        robot.link(link)
        above = {joint.child: joint for joint in robot.joints}
        path = []
        while link in above:
            path.append(above[link])
            link = path[-1].parent
        self._joints: list[_Joint] = []
        rotation, offset = _IDENTITY, (0.0, 0.0, 0.0)
        for joint in reversed(path):
            pose = joint.pose_parent_joint
            offset = _add(offset, _turn(rotation, _point(pose[:3, 3])))
            rotation = _product(rotation, _matrix(pose[:3, :3]))
            if joint.type is JointType.FIXED:
                continue
            name, multiplier, shift = joint.name, 1.0, 0.0
            if joint.mimic is not None:
                name, multiplier, shift = joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset
            if name not in joint_names:
                fault = Fault(f"joint {name}", "not commanded", f"one of {', '.join(joint_names)}")
                raise InvalidInputError("forward kinematics", [fault], "list every joint before the link")
            turn = None if rotation == _IDENTITY else rotation
            turns = joint.type is not JointType.PRISMATIC
            at = list(joint_names).index(name)
            self._joints.append(_Joint(offset, turn, _point(joint.axis), turns, at, multiplier, shift))
            rotation, offset = _IDENTITY, (0.0, 0.0, 0.0)
        self._tail = offset
        self.levers = self._levers(robot, joint_names)

    def _levers(self, robot: RobotModel, joint_names: Sequence[str]) -> tuple[float, ...]:
        """(n,) metres that the point can move at most per unit of each joint, whatever the others do."""
        levers = [0.0] * len(joint_names)
        beyond = math.hypot(*self._tail)
        for joint in reversed(self._joints):
            limits = robot.limits(joint_names[joint.index])
            if joint.turns:
                levers[joint.index] += abs(joint.multiplier) * beyond
            else:
                levers[joint.index] += abs(joint.multiplier)
                beyond += abs(joint.multiplier) * max(abs(limits.lower), abs(limits.upper)) + abs(joint.shift)
            beyond += math.hypot(*joint.offset)
        return tuple(levers)

    def __call__(self, q: Sequence[float]) -> Point:
        """The origin at joint positions q, (n,) in the order of `joint_names`; metres."""
        x, y, z = self._tail
        # From the link back to the root: turning one point costs less than multiplying rotations.
        for joint in reversed(self._joints):
            value = joint.multiplier * q[joint.index] + joint.shift
            ax, ay, az = joint.axis
            if joint.turns:
                c, s = math.cos(value), math.sin(value)
                along = (1.0 - c) * (ax * x + ay * y + az * z)
                x, y, z = (
                    c * x + s * (ay * z - az * y) + along * ax,
                    c * y + s * (az * x - ax * z) + along * ay,
                    c * z + s * (ax * y - ay * x) + along * az,
                )
            else:
                x, y, z = x + value * ax, y + value * ay, z + value * az
            if joint.rotation is not None:
                x, y, z = _turn(joint.rotation, (x, y, z))
            ox, oy, oz = joint.offset
            x, y, z = x + ox, y + oy, z + oz
        return x, y, z


def _point(values: F64) -> Point:
    x, y, z = values.tolist()
    return x, y, z


def _matrix(values: F64) -> _Matrix:
    a, b, c, d, e, f, g, h, i = values.ravel().tolist()
    return a, b, c, d, e, f, g, h, i


def _add(a: Point, b: Point) -> Point:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _turn(m: _Matrix, p: Point) -> Point:
    x, y, z = p
    return m[0] * x + m[1] * y + m[2] * z, m[3] * x + m[4] * y + m[5] * z, m[6] * x + m[7] * y + m[8] * z


def _product(a: _Matrix, b: _Matrix) -> _Matrix:
    columns = [_turn(a, (b[i], b[i + 3], b[i + 6])) for i in range(3)]
    (p, s, v), (q, t, w), (r, u, x) = columns
    return p, q, r, s, t, u, v, w, x
