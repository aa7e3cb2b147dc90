"""Kinematics of the five-joint arm with the tool pointing straight down, read out of the robot's description.

The arm is a turning shoulder (pan about z) that carries a chain lift-elbow-wrist in one vertical plane and a roll about
the tool's axis. With the tool vertical this has a closed solution, elbow up, the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether.contracts import F64
from tether.errors import Fault, InvalidInputError
from tether.robot.model import RobotModel
from tether.robot.roles import ARM_JOINTS, COMMAND_JOINTS

_STRETCH = 0.995
"""Share of the full reach that is used: at the end of it the elbow's rates grow without bound."""
_TOLERANCE_M = 1e-9


@dataclass(frozen=True)
class ArmGeometry:
    """Lengths of the arm in metres, in the base frame.

    pan_x, pan_y: where the pan axis stands; offset: from it out to the lift axis; lift_z: height of the lift axis;
    upper, fore: links; hand: from the wrist's axis to the tcp.
    """

    pan_x: float
    pan_y: float
    offset: float
    lift_z: float
    upper: float
    fore: float
    hand: float

    @staticmethod
    def of(robot: RobotModel) -> ArmGeometry:
        """Measure a robot at its zero pose; raises InvalidInputError where its arm is built otherwise."""
        zero = np.zeros(len(robot.joint_names))

        def at(link: str) -> F64:
            return robot.transform("base_link", link, zero)[0]

        children = [robot.joint(name).child for name in ARM_JOINTS]
        pan, lift, elbow, wrist, roll = (at(link) for link in children)
        tcp = at("tcp")
        line = (lift, elbow, wrist, roll, tcp)
        straight = all(abs(p[2] - lift[2]) < _TOLERANCE_M and abs(p[1] - pan[1]) < _TOLERANCE_M for p in line)
        expected_axes = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0))
        axes = all(
            np.allclose(robot.transform("base_link", robot.joint(name).child, zero)[1] @ robot.joint(name).axis, axis)
            for name, axis in zip(ARM_JOINTS, expected_axes, strict=True)
        )
        if not (straight and axes):
            fault = Fault("arm", "another build", "pan about z, three joints about y in line, roll about x, at zero")
            raise InvalidInputError(f"kinematics of robot {robot.name!r}", [fault])
        return ArmGeometry(
            pan_x=float(pan[0]),
            pan_y=float(pan[1]),
            offset=float(lift[0] - pan[0]),
            lift_z=float(lift[2]),
            upper=float(elbow[0] - lift[0]),
            fore=float(wrist[0] - elbow[0]),
            hand=float(tcp[0] - wrist[0]),
        )


class ArmKinematics:
    """Forward and inverse kinematics between arm joints and the tcp in the base frame, tool down."""

    def __init__(self, robot: RobotModel) -> None:
        self.geometry = ArmGeometry.of(robot)
        self.lower = np.array([robot.limits(name).lower for name in COMMAND_JOINTS])
        self.upper = np.array([robot.limits(name).upper for name in COMMAND_JOINTS])
        self.velocity_limit = np.array([robot.limits(name).velocity for name in COMMAND_JOINTS])

    def tcp(self, q: F64) -> F64:
        """Position of the tcp, (3,), for arm joints q (≥ 5 values in the order of ARM_JOINTS). Any pose."""
        g = self.geometry
        lift, elbow, wrist = q[1], q[1] + q[2], q[1] + q[2] + q[3]
        reach = g.offset + g.upper * math.cos(lift) + g.fore * math.cos(elbow) + g.hand * math.cos(wrist)
        z = g.lift_z - g.upper * math.sin(lift) - g.fore * math.sin(elbow) - g.hand * math.sin(wrist)
        return np.array([g.pan_x + reach * math.cos(q[0]), g.pan_y + reach * math.sin(q[0]), z])

    def reachable(self, p: F64) -> F64:
        """The point nearest to p (3,) along the horizontal line to the pan axis that the tool can reach, tool down."""
        g = self.geometry
        dx, dy = p[0] - g.pan_x, p[1] - g.pan_y
        distance = math.hypot(dx, dy)
        rise = p[2] + g.hand - g.lift_z
        most = _STRETCH * (g.upper + g.fore)
        rise = max(-most, min(most, rise))
        furthest = g.offset + math.sqrt(most * most - rise * rise)
        kept = max(g.offset + 0.075, min(furthest, distance))
        if distance < 1e-6:
            return np.array([g.pan_x + kept, g.pan_y, p[2]])
        scale = kept / distance
        return np.array([g.pan_x + dx * scale, g.pan_y + dy * scale, rise - g.hand + g.lift_z])

    def inverse(self, p: F64, v: F64, yaw: float) -> tuple[F64, F64]:
        """Joints and rates, each (5,), for the tcp at p (3,) moving at v (3,), tool down, fingers along `yaw`.

        yaw: direction of the fingers' travel about z, measured from base y, modulo half a turn. p is first drawn into
        reach. Positions are within the limits; rates are those of the unlimited solution.
        """
        g = self.geometry
        x, y, z = self.reachable(p)
        dx, dy = x - g.pan_x, y - g.pan_y
        distance = math.hypot(dx, dy)
        pan = math.atan2(dy, dx)
        out, down = distance - g.offset, g.lift_z - (z + g.hand)
        cos_elbow = (out * out + down * down - g.upper**2 - g.fore**2) / (2.0 * g.upper * g.fore)
        elbow = math.acos(max(-1.0, min(1.0, cos_elbow)))
        sin_elbow = math.sin(elbow)
        lift = math.atan2(down, out) - math.atan2(g.fore * sin_elbow, g.upper + g.fore * math.cos(elbow))
        wrist = math.pi / 2.0 - lift - elbow
        roll = pan - yaw
        roll -= math.pi * round(roll / math.pi)

        cos_pan, sin_pan = dx / distance, dy / distance
        out_rate = cos_pan * v[0] + sin_pan * v[1]
        pan_rate = (cos_pan * v[1] - sin_pan * v[0]) / distance
        down_rate = -v[2]
        # out = u cos(l) + f cos(l + e), down = u sin(l) + f sin(l + e): a 2 x 2 system in the rates.
        determinant = g.upper * g.fore * max(sin_elbow, 0.05)
        cos_both, sin_both = math.cos(lift + elbow), math.sin(lift + elbow)
        lift_rate = g.fore * (out_rate * cos_both + down_rate * sin_both) / determinant
        both_rate = -g.upper * (out_rate * math.cos(lift) + down_rate * math.sin(lift)) / determinant
        q = np.array([pan, lift, elbow, wrist, roll])
        rates = np.array([pan_rate, lift_rate, both_rate - lift_rate, -both_rate, pan_rate])
        return np.minimum(np.maximum(q, self.lower[:5]), self.upper[:5]), rates
