"""What becomes of a command as it reaches the world: joints in the robot's order, positions within its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tether.contracts import F64, Command
from tether.errors import Fault, InvalidInputError
from tether.robot.model import reorder
from tether.robot.roles import COMMAND_JOINTS


class PositionLimits:
    """Position limits of the commanded joints in the robot's order: low, high, each (len(COMMAND_JOINTS),) rad or m."""

    def __init__(self, low: F64, high: F64) -> None:
        self.low, self.high = low.copy(), high.copy()
        self._pairs = list(zip(low.tolist(), high.tolist(), strict=True))

    def applied(self, command: Command) -> Command:
        """The command in the robot's order, within the limits; InvalidInputError where it is malformed."""
        if command.joint_names != COMMAND_JOINTS:
            command = _in_order(command)
        position, velocity, twist = command.position, command.velocity, command.base_twist
        if len(position) != len(COMMAND_JOINTS) or len(velocity) != len(COMMAND_JOINTS) or len(twist) != 3:
            found = f"{len(position)} positions, {len(velocity)} velocities, {len(twist)} of base_twist"
            raise InvalidInputError("command", [Fault("lengths", found, f"{len(COMMAND_JOINTS)}, as many, 3")])
        values, rates = position.tolist(), twist.tolist()
        within = all([low <= value <= high for value, (low, high) in zip(values, self._pairs, strict=True)])
        if within and math.isfinite(sum(velocity.tolist(), sum(rates))):
            return command
        _require_finite(command)
        return replace(command, position=np.clip(position, self.low, self.high))


def _in_order(command: Command) -> Command:
    """The command with its joints in the robot's order; missing, extra and repeated ones are refused by name."""
    names = command.joint_names
    return replace(
        command,
        joint_names=COMMAND_JOINTS,
        position=reorder(names, command.position, COMMAND_JOINTS, "command: position"),
        velocity=reorder(names, command.velocity, COMMAND_JOINTS, "command: velocity"),
    )


def _require_finite(command: Command) -> None:
    faults = [
        Fault(f"{what}[{name}]", repr(value), "a finite number")
        for what, values in (("position", command.position), ("velocity", command.velocity))
        for name, value in zip(COMMAND_JOINTS, values.tolist(), strict=True)
        if not math.isfinite(value)
    ]
    if not np.isfinite(command.base_twist).all():
        faults.append(Fault("base_twist", repr(command.base_twist.tolist()), "finite numbers"))
    if faults:
        raise InvalidInputError("command", faults)
