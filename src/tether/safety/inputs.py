"""Where inputs enter the gate: read into plain floats in the gate's joint order, or refused with a verdict.

Strict about types: a contract's arrays are float64 of the right shape, and anything else is a fault of the
sender. Non-finite numbers are refused here, before any clamp could hide them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.contracts import Command, ImuSample, JointSample, Source, Verdict
from tether.safety import checks
from tether.safety.settings import Check

ACCELERATION_MAX_M_S2 = 5000.0
"""Beyond the range of every shock sensor that a robot of this kind would carry (about 400 g)."""


@dataclass(frozen=True)
class Proposal:
    """A command as the gate took it. position, velocity: (n,) in the gate's order; twist: vx, vy, wz."""

    position: tuple[float, ...]
    velocity: tuple[float, ...]
    twist: tuple[float, float, float]
    source: Source
    decision_id: int
    received_ns: int


@dataclass(frozen=True)
class ServoSample:
    """Health of the servos by joint name, each (n,), or None where not told. effort: N m (N)."""

    names: tuple[str, ...]
    temperature_c: tuple[float, ...] | None = None
    current_a: tuple[float, ...] | None = None
    voltage_v: tuple[float, ...] | None = None
    effort: tuple[float, ...] | None = None


def is_time(value: Any) -> bool:
    """True for integer nanoseconds; bools, floats and negative numbers are none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def read_command(command: Command, received_ns: int, names: tuple[str, ...]) -> Proposal | Verdict:
    """The command as a Proposal, or the verdict that refuses it."""
    if not isinstance(command, Command):
        return checks.refuse(Check.MALFORMED, f"command is {type(command).__name__}, expected Command")
    if not is_time(received_ns):
        return checks.refuse(Check.MALFORMED, f"received_ns is {received_ns!r}, expected integer nanoseconds")
    if not isinstance(command.source, Source) or not is_time(command.decision_id):
        text = f"source {command.source!r}, decision {command.decision_id!r}: expected a Source and a count"
        return checks.refuse(Check.MALFORMED, text)
    order = _order(command.joint_names, names)
    if isinstance(order, Verdict):
        return order
    position, velocity, twist = command.position, command.velocity, command.base_twist
    n = len(names)
    for field, values, size in (
        ("position", position, n),
        ("velocity", velocity, n),
        ("base_twist", twist, 3),
    ):
        if not _is_vector(values, size):
            return checks.refuse(Check.MALFORMED, f"{field} is {_describe(values)}, expected ({size},) float64")
    p, v, t = position.tolist(), velocity.tolist(), twist.tolist()
    if not all(map(math.isfinite, (*p, *v, *t))):
        return checks.finite((("position", p), ("velocity", v), ("base_twist", t)), command.joint_names)
    if order is not None:
        p, v = [p[i] for i in order], [v[i] for i in order]
    return Proposal(tuple(p), tuple(v), (t[0], t[1], t[2]), command.source, command.decision_id, received_ns)


def read_joints(sample: JointSample, names: tuple[str, ...]) -> tuple[float, ...] | Verdict:
    """Joint positions in the gate's order, or the verdict that refuses the sample."""
    if not isinstance(sample, JointSample):
        return checks.refuse(Check.MALFORMED, f"joint sample is {type(sample).__name__}, expected JointSample")
    order = _order(sample.names, names)
    if isinstance(order, Verdict):
        return order
    n = len(names)
    for field, values in (("joints.position", sample.position), ("joints.velocity", sample.velocity)):
        if not _is_vector(values, n):
            return checks.refuse(Check.MALFORMED, f"{field} is {_describe(values)}, expected ({n},) float64")
    p, v = sample.position.tolist(), sample.velocity.tolist()
    if not all(map(math.isfinite, (*p, *v))):
        return checks.finite((("joints.position", p), ("joints.velocity", v)), sample.names)
    return tuple(p) if order is None else tuple(p[i] for i in order)


def read_imu(sample: ImuSample) -> tuple[float, float, float] | Verdict:
    """Linear acceleration in m/s², or the verdict that refuses the sample."""
    if not isinstance(sample, ImuSample):
        return checks.refuse(Check.MALFORMED, f"IMU sample is {type(sample).__name__}, expected ImuSample")
    gyro, accel = sample.angular_velocity_rad_s, sample.linear_acceleration_m_s2
    for field, values in (("imu.angular_velocity", gyro), ("imu.linear_acceleration", accel)):
        if not _is_vector(values, 3):
            return checks.refuse(Check.MALFORMED, f"{field} is {_describe(values)}, expected (3,) float64")
    w, a = gyro.tolist(), accel.tolist()
    if not all(map(math.isfinite, (*w, *a))):
        fields = (("imu.angular_velocity", w), ("imu.linear_acceleration", a))
        return checks.finite(fields, ("x", "y", "z"))
    if max(map(abs, a)) > ACCELERATION_MAX_M_S2:
        text = f"imu.linear_acceleration is {a}, expected within ±{ACCELERATION_MAX_M_S2:g} m/s²"
        return checks.refuse(Check.MALFORMED, text)
    return a[0], a[1], a[2]


def read_servos(sample: ServoSample, names: tuple[str, ...]) -> ServoSample | Verdict:
    """The sample with the gate's joints first, or the verdict that refuses it: a joint missing, a number not finite.

    Servos beside the gate's joints, such as the wheels', are judged with them.
    """
    if not isinstance(sample, ServoSample):
        return checks.refuse(Check.MALFORMED, f"servo sample is {type(sample).__name__}, expected ServoSample")
    given = sample.names
    if not isinstance(given, tuple) or not all(isinstance(name, str) for name in given):
        return checks.refuse(Check.MALFORMED, f"names of servos are {_describe(given)}, expected a tuple of texts")
    others = tuple(name for name in given if name not in names)
    verdict = checks.joint_names(given, (*names, *others))
    if verdict.scale < 1.0:
        return checks.refuse(Check.JOINT_NAMES, f"servos: {verdict.reason}")
    order = [given.index(name) for name in (*names, *others)]
    ordered: dict[str, tuple[float, ...] | None] = {}
    for field in ("temperature_c", "current_a", "voltage_v", "effort"):
        values = getattr(sample, field)
        if values is None:
            ordered[field] = None
            continue
        good = isinstance(values, tuple) and len(values) == len(given) and all(type(x) is float for x in values)
        if not good:
            text = f"servo {field} is {_describe(values)}, expected {len(given)} floats"
            return checks.refuse(Check.MALFORMED, text)
        if not all(map(math.isfinite, values)):
            return checks.finite(((f"servo {field}", values),), given)
        ordered[field] = tuple(values[i] for i in order)
    return ServoSample((*names, *others), **ordered)


def _order(given: tuple[str, ...], names: tuple[str, ...]) -> list[int] | Verdict | None:
    """Where each of `names` stands in `given`; None for the same order; a verdict if the names differ."""
    # The gate has its own matching by name, beside tether.robot.model.reorder: it answers with verdicts, and no fault
    # of the stages before it is to be a fault of the gate.
    if given == names:
        return None
    if not isinstance(given, tuple) or not all(isinstance(name, str) for name in given):
        return checks.refuse(Check.MALFORMED, f"joint names are {_describe(given)}, expected a tuple of texts")
    verdict = checks.joint_names(given, names)
    return verdict if verdict.scale < 1.0 else [given.index(name) for name in names]


def _is_vector(values: Any, n: int) -> bool:
    return type(values) is np.ndarray and values.dtype == np.float64 and values.shape == (n,)


def _describe(values: Any) -> str:
    if isinstance(values, np.ndarray):
        return f"{values.shape} {values.dtype}"
    if isinstance(values, Sequence) and not isinstance(values, str):
        return f"{type(values).__name__} of {len(values)}"
    return type(values).__name__
