"""Rules on joints: limits, axes, mimic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.raw import JointType, RawJoint, RawMimic, RawRobot

_BOUNDED = (JointType.REVOLUTE, JointType.PRISMATIC)
_DRIVEN = (*_BOUNDED, JointType.CONTINUOUS)
UNIT_AXIS_TOLERANCE = 1e-3
"""How far from 1 the length of an axis may be: the common three digits (0.577 0.577 0.577) pass."""
_TURNS_MAX_RAD = 2 * math.pi * 20
"""Revolute limits beyond twenty turns are degrees mistaken for radians, or a continuous joint."""


def units(joint_type: JointType | None) -> tuple[str, str, str]:
    """Return the units of position, velocity and effort of a joint."""
    return ("m", "m/s", "N") if joint_type is JointType.PRISMATIC else ("rad", "rad/s", "N m")


def missing_limits(robot: RawRobot) -> Iterator[Finding]:
    """Find moving joints without limits.

    urdfdom refuses a revolute or prismatic joint without <limit>, and a <limit> without effort or velocity.
    On a continuous joint <limit> may be left out, so that is a warning: nothing then bounds its speed and
    torque.
    """
    for joint in robot.joints:
        unit, per_second, force = units(joint.type)
        if joint.type in _BOUNDED and joint.limit is None:
            message = f"{joint.type.value} joint without <limit>"
            fix = f'add <limit lower="…" upper="…" effort="…" velocity="…"/> ({unit}, {force}, {per_second})'
            yield error(Rule.LIMIT_MISSING, Kind.JOINT, joint.name, message, fix, joint.line)
        elif joint.type is JointType.CONTINUOUS and joint.limit is None:
            message = "continuous joint without <limit>: its speed and torque are unbounded"
            fix = 'add <limit effort="…" velocity="…"/>'
            yield warning(Rule.LIMIT_MISSING, Kind.JOINT, joint.name, message, fix, joint.line)
        elif joint.limit is not None:
            absent = [
                key
                for key in ("effort", "velocity")
                if getattr(joint.limit, key) is None and key not in joint.limit.unreadable
            ]
            if absent:
                fix = f"add {' and '.join(absent)} to <limit>"
                message = f"<limit> has no {' and no '.join(absent)}"
                yield error(Rule.LIMIT_MISSING, Kind.JOINT, joint.name, message, fix, joint.limit.line)


def position_range(robot: RawRobot) -> Iterator[Finding]:
    """Find ranges of position that are empty or turned round; absent bounds count as 0, as in urdfdom."""
    for joint in robot.joints:
        limit = joint.limit
        if joint.type not in _BOUNDED or limit is None or {"lower", "upper"} & limit.unreadable:
            continue
        unit, _, _ = units(joint.type)
        lower, upper = limit.lower or 0.0, limit.upper or 0.0
        if lower >= upper:
            absent = [key for key in ("lower", "upper") if getattr(limit, key) is None]
            assumed = f" ({' and '.join(absent)} absent, taken as 0)" if absent else ""
            message = f"lower {lower:g} ≥ upper {upper:g} {unit}{assumed}: it cannot move"
            fix = "write lower < upper, or make the joint fixed"
            yield error(Rule.LIMIT_RANGE, Kind.JOINT, joint.name, message, fix, limit.line)
        if joint.type is JointType.REVOLUTE and max(abs(lower), abs(upper)) > _TURNS_MAX_RAD:
            message = f"range {lower:g} … {upper:g} rad is beyond 20 turns"
            fix = "write radians, or make the joint continuous"
            yield warning(Rule.LIMIT_RANGE, Kind.JOINT, joint.name, message, fix, limit.line)


def effort_and_velocity(robot: RawRobot) -> Iterator[Finding]:
    """Find limits of effort or velocity that are zero or negative."""
    for joint in robot.joints:
        if joint.type not in _DRIVEN or joint.limit is None:
            continue
        _, per_second, force = units(joint.type)
        for rule, key, value, unit in (
            (Rule.LIMIT_EFFORT, "effort", joint.limit.effort, force),
            (Rule.LIMIT_VELOCITY, "velocity", joint.limit.velocity, per_second),
        ):
            if value is not None and value <= 0.0:
                message = f"{key} limit {value:g} {unit}: " + ("it cannot move" if value == 0 else "negative")
                fix = f"write what the actuator can do, in {unit}"
                yield error(rule, Kind.JOINT, joint.name, message, fix, joint.limit.line)


def continuous_with_range(robot: RawRobot) -> Iterator[Finding]:
    """Find continuous joints with position limits, which some readers hold to and others ignore."""
    for joint in robot.joints:
        limit = joint.limit
        if joint.type is JointType.CONTINUOUS and limit is not None:
            bounds = [key for key in ("lower", "upper") if getattr(limit, key) is not None]
            if bounds:
                message = f"continuous joint with {' and '.join(bounds)}: readers differ on whether they hold"
                fix = "remove them, or make the joint revolute"
                yield warning(Rule.LIMIT_ON_CONTINUOUS, Kind.JOINT, joint.name, message, fix, limit.line)


def axes(robot: RawRobot) -> Iterator[Finding]:
    """Find axes of zero length, or not of length 1, which some readers normalise and some do not."""
    for joint in robot.joints:
        if not joint.moves or joint.type is JointType.FLOATING or joint.axis is None:
            continue
        length = math.sqrt(sum(value * value for value in joint.axis))
        written = " ".join(f"{value:g}" for value in joint.axis)
        if length < 1e-9:
            fix = "write the direction of the axis, e.g. 0 0 1"
            yield error(Rule.AXIS_ZERO, Kind.JOINT, joint.name, f"axis {written} has no direction", fix, joint.line)
        elif abs(length - 1.0) > UNIT_AXIS_TOLERANCE:
            unit = " ".join(f"{value / length:.6g}" for value in joint.axis)
            message = f"axis {written} has length {length:.4g}, not 1"
            yield warning(Rule.AXIS_NOT_UNIT, Kind.JOINT, joint.name, message, f"write {unit}", joint.line)


def mimics(robot: RawRobot) -> Iterator[Finding]:
    """Find mimic joints that follow nothing, themselves, a fixed joint or one that itself follows."""
    by_name = {joint.name: joint for joint in reversed(robot.joints)}
    for joint in robot.joints:
        if joint.mimic is None or not joint.moves:
            continue
        problem = None
        if joint.mimic.joint is not None:
            problem = _mimic_problem(joint.name, joint.mimic, by_name.get(joint.mimic.joint))
        if problem is not None:
            message, fix = problem
            yield error(Rule.MIMIC_SOURCE, Kind.JOINT, joint.name, message, fix, joint.mimic.line)
        if joint.mimic.multiplier == 0.0:
            message, fix = "mimic with multiplier 0 never moves", "make the joint fixed"
            yield warning(Rule.MIMIC_STILL, Kind.JOINT, joint.name, message, fix, joint.mimic.line)


def _mimic_problem(follower: str, mimic: RawMimic, source: RawJoint | None) -> tuple[str, str] | None:
    name = mimic.joint
    if name == follower:
        return "mimics itself", "name the joint that it should follow"
    if source is None:
        return f"mimics {name!r}, which does not exist", "name a joint of this file"
    if source.type is JointType.FIXED:
        return f"mimics {name!r}, which is fixed", "name a joint that moves"
    if source.mimic is not None:
        return (
            f"mimics {name!r}, which itself mimics {source.mimic.joint!r}: not all readers follow chains",
            "name the joint at the start of the chain, with the product of the multipliers",
        )
    return None


def mimic_dropped(robot: RawRobot) -> Iterator[Finding]:
    """Say which joints move freely in worlds whose URDF import drops mimic.

    MuJoCo did so without a word until mujoco#3530 (4.0) made it an equality; Unity and SAPIEN still do.
    """
    by_name = {joint.name: joint for joint in reversed(robot.joints)}
    for joint in robot.joints:
        if joint.mimic is None or not joint.moves:
            continue
        source = by_name.get(joint.mimic.joint or "")
        if source is not None and _mimic_problem(joint.name, joint.mimic, source) is None:
            message = f"follows {source.name!r} by mimic, which MuJoCo < 4.0 and others drop on import"
            fix = "see that the world holds it by a constraint (MuJoCo: <equality><joint>)"
            yield warning(Rule.MIMIC_DROPPED, Kind.JOINT, joint.name, message, fix, joint.mimic.line)


def negative_dynamics(robot: RawRobot) -> Iterator[Finding]:
    """Find negative damping or friction, with which a joint drives itself."""
    for joint in robot.joints:
        for key, value in (("damping", joint.damping), ("friction", joint.friction)):
            if value < 0.0:
                message = f"{key} {value:g}: the joint would drive itself"
                yield error(Rule.DYNAMICS_NEGATIVE, Kind.JOINT, joint.name, message, "write 0 or more", joint.line)


RULES = (
    negative_dynamics,
    missing_limits,
    position_range,
    effort_and_velocity,
    continuous_with_range,
    axes,
    mimics,
    mimic_dropped,
)
