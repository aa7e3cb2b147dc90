"""Which joints of the description play which part, and what the base's wheels measure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether.errors import Fault, InvalidInputError
from tether.robot.model import RobotModel

ARM_JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
GRIPPER_JOINT = "gripper"
COMMAND_JOINTS = (*ARM_JOINTS, GRIPPER_JOINT)
"""The joints that a command carries, in its order."""
WHEEL_JOINTS = ("wheel_left", "wheel_back", "wheel_right")
_TOLERANCE_M = 1e-6


@dataclass(frozen=True)
class OmniBase:
    """Wheels around base_link, which lies on the ground under their centre. angles_rad: where each stands, about z."""

    angles_rad: tuple[float, ...]
    distance_m: float
    radius_m: float

    @staticmethod
    def of(robot: RobotModel) -> OmniBase:
        """Measure a robot; raises InvalidInputError where its wheels are not alike."""
        zero = np.zeros(len(robot.joint_names))
        at = [robot.transform("base_link", robot.joint(name).child, zero)[0].tolist() for name in WHEEL_JOINTS]
        distances = [math.hypot(x, y) for x, y, _ in at]
        radii = [z for _, _, z in at]
        if min(*radii, *distances) <= 0.0 or max(np.ptp(radii), np.ptp(distances)) > _TOLERANCE_M:
            found = f"radii {radii} m, distances {distances} m"
            fault = Fault("wheels", found, "one radius and one distance from the centre, above 0")
            raise InvalidInputError(f"base of robot {robot.name!r}", [fault])
        return OmniBase(tuple(math.atan2(y, x) for x, y, _ in at), distances[0], radii[0])

    def wheel_rates(self, vx: float, vy: float, wz: float) -> list[float]:
        """Rates of the wheels, rad/s, at which none of them slips along its rolling direction."""
        turning = self.distance_m * wz
        return [(vy * math.cos(a) - vx * math.sin(a) + turning) / self.radius_m for a in self.angles_rad]
