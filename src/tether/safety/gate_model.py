"""What the gate knows of the robot: limits of the joints, kinematics, settings; all faults at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tether.contracts import Stream
from tether.errors import Fault, InvalidInputError
from tether.robot.model import RobotModel
from tether.safety.kinematics import PointChain
from tether.safety.limiter import AxisLimits
from tether.safety.settings import TICK_S, Check, Hardware, JointDynamics, SafetySettings
from tether.safety.workspace import Workspace

_WITHOUT_LIMIT = 1e6
"""Acceleration in place of a disabled limit: any admissible velocity is reached within a tick."""

_SERVO_HARDWARE = frozenset(
    {Hardware.SERVO_TEMPERATURE, Hardware.SERVO_CURRENT, Hardware.SERVO_VOLTAGE, Hardware.GRIPPER_EFFORT}
)


@dataclass(frozen=True, eq=False)
class GateModel:
    """Everything fixed that a Supervisor needs. Made by `build`."""

    settings: SafetySettings
    joint_names: tuple[str, ...]
    axes: tuple[AxisLimits, ...]
    workspace: Workspace | None
    gripper: int
    streams: tuple[Stream, ...]
    servo_hardware: frozenset[Hardware]
    check_silence: bool
    check_stamps: bool
    command_max_ns: int

    @staticmethod
    def build(robot: RobotModel, settings: SafetySettings, physical: bool) -> GateModel:
        """Put limits of the description and of the settings together.

        physical: True where motors are real; disabled checks are then refused.
        Raises InvalidInputError with every fault: joints unknown, limits missing, links unknown.
        """
        faults: list[Fault] = []
        if physical and settings.disabled_checks:
            off = ", ".join(check.value for check in settings.disabled_checks)
            faults.append(Fault("disabled_checks", off, "an empty list on a physical robot"))
        if physical and not settings.fits(Hardware.IMU):
            faults.append(Fault("not_fitted", "imu", "an IMU on a physical robot: the base carries it"))
        unknown = [name for name in settings.joints if name not in robot.joint_names]
        faults += [Fault(f"joints: {name}", "unknown", f"one of {', '.join(robot.joint_names)}") for name in unknown]
        # What the base's twist drives is no joint of the gate; any joint that can be positioned must be.
        names = tuple(name for name in robot.joint_names if name in settings.joints)
        for name in robot.joint_names:
            if name not in settings.joints and math.isfinite(robot.limits(name).upper):
                faults.append(Fault(f"joints: {name}", "nothing", "its acceleration and jerk limits"))
        axes = [_axis(name, robot, settings, faults) for name in names]
        chains = {}
        for link in settings.workspace.links:
            try:
                chains[link] = PointChain(robot, link, names)
            except InvalidInputError as error:
                faults += [Fault(f"workspace: links: {link}", f.found, f.expected) for f in error.faults]
        if faults:
            raise InvalidInputError("safety settings for this robot", faults, "correct safety.yaml or the URDF")
        fitted = _SERVO_HARDWARE - set(settings.not_fitted)
        streams = [Stream.JOINTS]
        streams += [Stream.IMU] if settings.fits(Hardware.IMU) else []
        streams += [Stream.CAMERA] if settings.fits(Hardware.CAMERA) else []
        return GateModel(
            settings=settings,
            joint_names=names,
            axes=tuple(axes),
            workspace=Workspace(settings.workspace, chains) if settings.checks(Check.WORKSPACE) else None,
            gripper=names.index(settings.gripper.joint),
            streams=tuple(streams),
            servo_hardware=frozenset(fitted),
            check_silence=settings.checks(Check.SENSOR_SILENCE),
            check_stamps=settings.checks(Check.STAMP_AGE),
            command_max_ns=round(settings.ages.command_max_ms * 1e6),
        )


def _axis(name: str, robot: RobotModel, settings: SafetySettings, faults: list[Fault]) -> AxisLimits:
    limits, dynamics = robot.limits(name), settings.joints[name]
    if not (math.isfinite(limits.velocity) and limits.velocity > 0.0):
        faults.append(Fault(f"joint {name}: velocity limit", f"{limits.velocity}", "a finite number above 0"))
    if not limits.lower < limits.upper:
        found = f"[{limits.lower}, {limits.upper}]"
        faults.append(Fault(f"joint {name}: position limits", found, "lower below upper"))
    a_max = dynamics.acceleration_max if settings.checks(Check.JOINT_ACCELERATION) else _WITHOUT_LIMIT
    j_step = _jerk_step(dynamics, settings, a_max)
    return AxisLimits(name, limits.lower, limits.upper, limits.velocity, a_max, j_step)


def _jerk_step(dynamics: JointDynamics, settings: SafetySettings, a_max: float) -> float:
    limited = settings.checks(Check.JOINT_JERK) and settings.checks(Check.JOINT_ACCELERATION)
    return max(dynamics.jerk_max * TICK_S, a_max) if limited else 2.0 * a_max
