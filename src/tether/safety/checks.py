"""The gate's judgements, each a pure function that returns a Verdict; `most_restrictive` takes the worst.

A verdict's scale is the share of motion that may pass: 1 passes, 0 stops. Its reason says what was found and
what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tether.contracts import Mode, Primitive, Source, Stream, Verdict
from tether.safety.limiter import AxisLimits
from tether.safety.settings import Check, GripperLimits, ImuLimits, ModeRules, RepeatLimits, ServoLimits

PASSED = {check: Verdict(check.value, 1.0) for check in Check}


def refuse(check: Check, reason: str) -> Verdict:
    """A verdict that stops."""
    return Verdict(check.value, 0.0, reason)


def most_restrictive(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict with the smallest scale, the first of equals; None where there is none below 1.

    A scale that is not a number counts as the most restrictive of all.
    """
    worst: Verdict | None = None
    least = 1.0
    for verdict in verdicts:
        scale = verdict.scale if verdict.scale == verdict.scale else -math.inf
        if scale < least:
            worst, least = verdict, scale
    return worst


def finite(fields: Sequence[tuple[str, Sequence[float]]], names: Sequence[str]) -> Verdict:
    """Refuses anything that is not finite and names it. fields: (field, its values) with one value a name."""
    for field, values in fields:
        for i, value in enumerate(values):
            if not math.isfinite(value):
                label = names[i] if len(values) == len(names) else ("vx", "vy", "wz", "w")[min(i, 3)]
                return refuse(Check.FINITE, f"{field}[{label}] is {value}, expected a finite number")
    return PASSED[Check.FINITE]


def joint_names(given: Sequence[str], expected: Sequence[str]) -> Verdict:
    """Refuses missing, extra and repeated joints."""
    missing = [name for name in expected if name not in given]
    extra = [str(name) for name in given if name not in expected]
    repeated = len(given) != len(set(given))
    if not (missing or extra or repeated):
        return PASSED[Check.JOINT_NAMES]
    parts = [
        f"missing {', '.join(missing)}" if missing else "",
        f"extra {', '.join(extra[:8])}" if extra else "",
    ]
    parts.append("a joint given twice" if repeated else "")
    return refuse(Check.JOINT_NAMES, "; ".join(p for p in parts if p) + f"; expected {', '.join(expected)}")


def command_age(age_ns: int | None, max_ns: int) -> Verdict:
    """Steady time since the gate received the command; None while none has come."""
    if age_ns is None:
        return refuse(Check.COMMAND_AGE, "no command has come")
    if age_ns > max_ns:
        return refuse(Check.COMMAND_AGE, f"command is {age_ns * 1e-6:.1f} ms old, limit {max_ns * 1e-6:g} ms")
    return PASSED[Check.COMMAND_AGE]


def sensor_silence(stream: Stream, silence_ns: int | None, max_ns: int, why: str = "") -> Verdict:
    """Steady time since the last good sample of `stream` came; None while none has come. why: of the last bad one."""
    why = f"; the last was refused: {why}" if why else ""
    if silence_ns is None:
        return refuse(Check.SENSOR_SILENCE, f"{stream.value}: no sample has come{why}")
    if silence_ns > max_ns:
        text = f"{stream.value}: nothing for {silence_ns * 1e-6:.1f} ms, limit {max_ns * 1e-6:g} ms"
        return refuse(Check.SENSOR_SILENCE, text + why)
    return PASSED[Check.SENSOR_SILENCE]


def stamp_age(stream: Stream, age_ns: int | None, max_ns: int) -> Verdict:
    """How long ago the newest sample of `stream` was acquired; None while no stamp could be accepted."""
    if age_ns is None:
        return refuse(Check.STAMP_AGE, f"{stream.value}: no sample with an acceptable stamp has come")
    if age_ns > max_ns:
        text = f"{stream.value}: newest sample is {age_ns * 1e-6:.1f} ms old, limit {max_ns * 1e-6:g} ms"
        return refuse(Check.STAMP_AGE, text)
    return PASSED[Check.STAMP_AGE]


def sensor_repeats(same: int, moved: str, limits: RepeatLimits) -> Verdict:
    """Refuses joint states of which `same` more were the same after joint `moved` had been told to move."""
    if same < limits.joints_same_max:
        return PASSED[Check.SENSOR_REPEATS]
    text = (
        f"joints: the same, bit for bit, {same} samples after {moved} was told to move by {limits.joints_moved_rad:g}"
    )
    return refuse(Check.SENSOR_REPEATS, f"{text} rad; sensor dead, or arm blocked")


def sensor_belied(again: int, says: str, said_rad: float, limits: RepeatLimits) -> Verdict:
    """Refuses joint states that came `again` times more while `says` moved by `said_rad`, by its own speed."""
    if again < limits.joints_same_max or not said_rad > limits.joints_said_rad:
        return PASSED[Check.SENSOR_REPEATS]
    text = f"joints: the same, bit for bit, {again} samples; by its own speed {says} moved by {said_rad:.3f} rad"
    return refuse(Check.SENSOR_REPEATS, f"{text}; sensor dead")


def source(given: Source, mode: Mode, rules: ModeRules) -> Verdict:
    """Refuses commands of a source that the mode does not allow."""
    if given in rules.sources:
        return PASSED[Check.SOURCE]
    allowed = ", ".join(s.value for s in rules.sources)
    return refuse(Check.SOURCE, f"{given.value} may not command in {mode.name}, only {allowed}")


def primitive(given: Primitive | None, mode: Mode, rules: ModeRules) -> Verdict:
    """Refuses primitives that the mode does not allow; an unknown one passes only where all are allowed."""
    if given in rules.primitives or rules.primitives_all:
        return PASSED[Check.PRIMITIVE]
    name = "an unknown primitive" if given is None else given.name
    allowed = ", ".join(p.name for p in rules.primitives)
    return refuse(Check.PRIMITIVE, f"{name} may not run in {mode.name}, only {allowed}")


def tilt(angle_rad: float, limits: ImuLimits) -> Verdict:
    """Scales down from the slow angle, stops at the stop angle."""
    if angle_rad <= limits.tilt_slow_rad:
        return PASSED[Check.TILT]
    share = (limits.tilt_stop_rad - angle_rad) / (limits.tilt_stop_rad - limits.tilt_slow_rad)
    limit = f"slows above {limits.tilt_slow_rad:g}, stops at {limits.tilt_stop_rad:g} rad"
    reason = f"tilted by {angle_rad:.3f} rad; {limit}"
    return Verdict(Check.TILT.value, max(share, 0.0), reason)


def shock(excess_m_s2: float, limits: ImuLimits) -> Verdict:
    """Stops when one sample's |a| differs from g by more than the limit."""
    if excess_m_s2 <= limits.shock_max_m_s2:
        return PASSED[Check.SHOCK]
    return refuse(Check.SHOCK, f"|a| - g was {excess_m_s2:.1f} m/s², limit {limits.shock_max_m_s2:g}")


def free_fall(magnitude_m_s2: float, limits: ImuLimits) -> Verdict:
    """Stops when the low-passed |a| says that nothing carries the robot, or that the IMU is dead."""
    if magnitude_m_s2 >= limits.free_fall_m_s2:
        return PASSED[Check.FREE_FALL]
    return refuse(Check.FREE_FALL, f"|a| is {magnitude_m_s2:.2f} m/s², expected at least {limits.free_fall_m_s2:g}")


def servo_temperature(names: Sequence[str], celsius: Sequence[float], limits: ServoLimits) -> Verdict:
    """Scales down from the slow temperature of the hottest servo, stops at the stop temperature."""
    i = max(range(len(celsius)), key=lambda k: celsius[k])
    if celsius[i] <= limits.temperature_slow_c:
        return PASSED[Check.SERVO_TEMPERATURE]
    share = (limits.temperature_stop_c - celsius[i]) / (limits.temperature_stop_c - limits.temperature_slow_c)
    reason = f"{names[i]} at {celsius[i]:.1f} °C; slows above {limits.temperature_slow_c:g}"
    reason += f", stops at {limits.temperature_stop_c:g}"
    return Verdict(Check.SERVO_TEMPERATURE.value, max(share, 0.0), reason)


def servo_current(names: Sequence[str], ampere: Sequence[float], limits: ServoLimits) -> Verdict:
    """Stops while a servo draws more than its limit."""
    i = max(range(len(ampere)), key=lambda k: abs(ampere[k]))
    if abs(ampere[i]) <= limits.current_max_a:
        return PASSED[Check.SERVO_CURRENT]
    return refuse(Check.SERVO_CURRENT, f"{names[i]} draws {abs(ampere[i]):.2f} A, limit {limits.current_max_a:g} A")


def servo_voltage(names: Sequence[str], volt: Sequence[float], limits: ServoLimits) -> Verdict:
    """Stops while a servo's supply is outside its range."""
    for name, value in zip(names, volt, strict=True):
        if not limits.voltage_min_v <= value <= limits.voltage_max_v:
            wanted = f"within [{limits.voltage_min_v:g}, {limits.voltage_max_v:g}] V"
            return refuse(Check.SERVO_VOLTAGE, f"{name} has {value:.2f} V, expected {wanted}")
    return PASSED[Check.SERVO_VOLTAGE]


def gripper_effort(effort: float, limits: GripperLimits) -> Verdict:
    """Says that the gripper may not close further; the arm goes on."""
    if abs(effort) <= limits.effort_max:
        return PASSED[Check.GRIPPER_EFFORT]
    reason = f"{limits.joint} presses with {abs(effort):.2f}, limit {limits.effort_max:g}: may hold or open only"
    return Verdict(Check.GRIPPER_EFFORT.value, 0.0, reason)


def joint_position(asked: float, q: float, lim: AxisLimits) -> Verdict:
    """The share of the step to `asked` that lies within the position limits."""
    if lim.lower <= asked <= lim.upper:
        return PASSED[Check.JOINT_POSITION]
    bound = lim.lower if asked < lim.lower else lim.upper
    reason = f"{lim.name} asked for {asked:.4g}, limits [{lim.lower:g}, {lim.upper:g}]"
    return Verdict(Check.JOINT_POSITION.value, _share(bound - q, asked - q), reason)


def joint_velocity(asked_rate: float, v_cap: float, lim: AxisLimits) -> Verdict:
    """The share of the asked rate that the velocity limit, or the mode's share of it, lets pass."""
    if abs(asked_rate) <= v_cap:
        return PASSED[Check.JOINT_VELOCITY]
    reason = f"{lim.name} asked for {abs(asked_rate):.4g} per s, limit {v_cap:.4g}"
    return Verdict(Check.JOINT_VELOCITY.value, _share(v_cap, abs(asked_rate)), reason)


def joint_acceleration(asked: float, lim: AxisLimits) -> Verdict:
    """The share of the asked acceleration that passes."""
    if abs(asked) <= lim.a_max:
        return PASSED[Check.JOINT_ACCELERATION]
    reason = f"{lim.name} asked for {abs(asked):.4g} per s², limit {lim.a_max:g}"
    return Verdict(Check.JOINT_ACCELERATION.value, _share(lim.a_max, abs(asked)), reason)


def joint_jerk(asked_change: float, tick_s: float, lim: AxisLimits) -> Verdict:
    """The share of the asked change of acceleration within one tick that passes."""
    if abs(asked_change) <= lim.j_step:
        return PASSED[Check.JOINT_JERK]
    reason = f"{lim.name} asked for {abs(asked_change) / tick_s:.4g} per s³, limit {lim.j_step / tick_s:g}"
    return Verdict(Check.JOINT_JERK.value, _share(lim.j_step, abs(asked_change)), reason)


def base_linear(speed_m_s: float, max_m_s: float) -> Verdict:
    """The share of the base's linear velocity that passes."""
    if speed_m_s <= max_m_s:
        return PASSED[Check.BASE_LINEAR]
    reason = f"asked for {speed_m_s:.4g} m/s, limit {max_m_s:.4g} m/s"
    return Verdict(Check.BASE_LINEAR.value, _share(max_m_s, speed_m_s), reason)


def base_angular(rate_rad_s: float, max_rad_s: float) -> Verdict:
    """The share of the base's angular velocity that passes."""
    if abs(rate_rad_s) <= max_rad_s:
        return PASSED[Check.BASE_ANGULAR]
    reason = f"asked for {abs(rate_rad_s):.4g} rad/s, limit {max_rad_s:.4g} rad/s"
    return Verdict(Check.BASE_ANGULAR.value, _share(max_rad_s, abs(rate_rad_s)), reason)


def _share(passed: float, asked: float) -> float:
    """passed / asked within [0, 1]; 0 where it cannot be told (0 of 0, overflow)."""
    if asked == 0.0 or not math.isfinite(asked):
        return 0.0
    return min(max(passed / asked, 0.0), 1.0)
