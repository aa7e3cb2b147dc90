"""The gate stops for everything that it cannot trust, within limits, and recovers where that is safe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tether.codec.convert import NO_DECISION
from tether.contracts import (
    TICK_NS,
    ExecutedCommand,
    ImuSample,
    JointSample,
    Mode,
    Primitive,
    SampleRef,
    Source,
    Stream,
)
from tether.errors import InvalidInputError
from tether.safety.inputs import ServoSample
from tether.safety.machine import Event
from tether.safety.settings import Check, Hardware

MS = 1_000_000


def moving(rig: Any, ticks: int = 30) -> None:
    """Arm and base in motion, at about 1.5 rad/s and 0.2 m/s."""
    rig.active()
    q = np.array(rig.q)
    for _ in range(ticks):
        q[0] += 0.015
        rig.run(1, q, (0.2, 0.0, 0.5))


def ticks_to_standstill(rig: Any, feed: Callable[[], None], most: int = 100) -> tuple[int, int]:
    """Ticks until the first output that lets nothing pass, and until nothing moves."""
    first = None
    for k in range(1, most):
        feed()
        output = rig.tick()
        if first is None and output.scale == 0.0:
            first = k
        if first is not None and rig.still(output):
            return first, k
    raise AssertionError("did not come to a standstill")


def test_lost_commands_stop_arm_and_base_within_100_ms(rig: Any) -> None:
    moving(rig)
    first, _ = ticks_to_standstill(rig, rig.sense)
    assert first * TICK_NS <= 100 * MS


@pytest.mark.parametrize("stream", list(Stream)[:3])
def test_silent_sensor_stops_within_300_ms(rig: Any, stream: Stream) -> None:
    moving(rig)
    rig.streams.discard(stream)

    def feed() -> None:
        rig.sense()
        rig.propose(rig.gate._arm.goals, (0.2, 0.0, 0.5))

    first, _ = ticks_to_standstill(rig, feed)
    assert first * TICK_NS <= 300 * MS
    names = {v.check for v in rig.tick().verdicts}
    assert Check.SENSOR_SILENCE.value in names


def test_old_stamps_stop_although_samples_keep_coming(rig: Any) -> None:
    moving(rig)
    rig.stamp_age_ns = 460 * MS
    first, _ = ticks_to_standstill(rig, lambda: (rig.sense(), rig.propose(None, (0.2, 0.0, 0.0)))[0])
    assert first * TICK_NS <= 300 * MS
    output = rig.run(1)
    assert {v.check for v in output.verdicts} >= {Check.STAMP_AGE.value}
    assert Check.SENSOR_SILENCE.value not in {v.check for v in output.verdicts}


def test_repeated_stamps_age_although_samples_keep_coming(rig: Any) -> None:
    moving(rig)
    stamp_ns = rig.now_ns

    def frozen() -> None:
        rig.stamp_age_ns = rig.now_ns - stamp_ns
        rig.sense()
        rig.propose(None, (0.2, 0.0, 0.0))

    first, _ = ticks_to_standstill(rig, frozen)
    assert first * TICK_NS <= 300 * MS


def test_gate_recovers_by_itself_when_a_lost_sensor_comes_back(rig: Any) -> None:
    moving(rig)
    rig.streams.discard(Stream.JOINTS)
    rig.run(40)
    assert rig.gate.mode is Mode.ARMED
    rig.streams.add(Stream.JOINTS)
    rig.run(2)
    assert rig.gate.mode is Mode.ACTIVE


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("field", "where", "named"), [
    ("position", 1, "position[shoulder_lift]"),
    ("velocity", 5, "velocity[gripper]"),
    ("base_twist", 2, "base_twist[wz]"),
])  # fmt: skip
def test_non_finite_command_stops_at_once_and_names_the_field(
    rig: Any, bad: float, field: str, where: int, named: str
) -> None:
    moving(rig)
    rig.sense()
    good = rig.command(None, (0.2, 0.0, 0.0))
    values = getattr(good, field).copy()
    values[where] = bad
    rig.propose(None, (0.2, 0.0, 0.0), **{field: values})
    output = rig.tick()
    assert output.scale == 0.0
    assert any(v.check == Check.FINITE.value and named in v.reason for v in output.verdicts)


def test_last_good_command_does_not_run_on_after_a_bad_one(rig: Any) -> None:
    moving(rig)
    rig.sense()
    rig.propose(None, (math.nan, 0.0, 0.0))
    first, standstill = ticks_to_standstill(rig, rig.sense)
    assert first == 1
    assert standstill <= 20


@pytest.mark.parametrize("names", [
    ("shoulder_pan",),
    ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll"),
    ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper", "tail"),
    ("shoulder_pan", "shoulder_pan", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"),
    (),
])  # fmt: skip
def test_missing_extra_and_repeated_joints_are_refused(rig: Any, names: tuple[str, ...]) -> None:
    rig.active()
    rig.sense()
    zero = np.zeros(len(names))
    verdict = rig.gate.propose(rig.command(zero, joint_names=names), rig.now_ns)
    assert verdict is not None
    assert verdict.check == Check.JOINT_NAMES.value
    assert rig.tick().scale == 0.0


def test_joints_are_matched_by_name_not_by_position(rig: Any) -> None:
    rig.active()
    names = rig.model.joint_names
    for _ in range(3):
        rig.sense()
        rig.propose(np.array(rig.q)[::-1], joint_names=names[::-1])
        output = rig.tick()
    np.testing.assert_array_equal(output.command.position, rig.q)
    assert output.scale == 1.0


@pytest.mark.parametrize("stream", [Stream.JOINTS, Stream.IMU])
def test_nan_in_a_sensor_stops_until_a_good_sample_comes(rig: Any, stream: Stream) -> None:
    moving(rig)
    rig.sense()
    bad = np.full(3, math.nan)
    ref = SampleRef(stream, rig.now_ns, 10**6)
    if stream is Stream.IMU:
        rig.gate.on_imu(ImuSample(ref, np.zeros(3), bad), rig.now_ns)
    else:
        position = np.full(6, math.nan)
        rig.gate.on_joints(JointSample(ref, rig.model.joint_names, position, position), rig.now_ns)
    rig.propose(None, (0.2, 0.0, 0.0))
    output = rig.tick()
    assert output.scale == 0.0
    assert any(v.check == Check.FINITE.value for v in output.verdicts)
    assert rig.run(2, None, (0.2, 0.0, 0.0)).mode is Mode.ACTIVE


def test_clock_running_backwards_is_a_latched_stop(rig: Any) -> None:
    moving(rig)
    output = rig.tick(-1)
    assert output.mode is Mode.STOP
    assert any(v.check == Check.CLOCK.value for v in output.verdicts)
    assert rig.run(50).mode is Mode.STOP


@pytest.mark.parametrize("now", [None, 1.5, "now", -1, True, 1 << 70, math.nan])
def test_time_that_is_no_time_is_a_latched_stop(rig: Any, now: object) -> None:
    moving(rig)
    assert rig.gate.tick(now).mode is Mode.STOP


def test_samples_and_commands_from_the_future_are_not_fresh_for_ever(rig: Any) -> None:
    moving(rig)
    far_ns = rig.now_ns + 3600 * 1000 * MS
    rig.gate.propose(rig.command(None, (0.2, 0.0, 0.0)), far_ns)
    for stream in (Stream.CAMERA,):
        rig.gate.on_stream(SampleRef(stream, far_ns, 1), far_ns)
    rig.streams.clear()
    outputs = [rig.tick() for _ in range(40)]
    assert outputs[0].scale == 0.0
    assert rig.still(outputs[-1])


def test_stamps_that_stay_in_the_future_stop_within_300_ms(rig: Any) -> None:
    moving(rig)
    rig.stamp_age_ns = -50 * MS
    first, _ = ticks_to_standstill(rig, lambda: (rig.sense(), rig.propose(None, (0.2, 0.0, 0.0)))[0])
    assert first * TICK_NS <= 300 * MS
    assert Check.STAMP_AGE.value in {v.check for v in rig.run(1).verdicts}


@pytest.mark.parametrize("step_ns", [3600 * 1000 * MS, -3600 * 1000 * MS])
def test_step_of_the_stamps_clock_by_an_hour_changes_nothing(rig: Any, step_ns: int) -> None:
    """One sample of each stream was on its way when the clock stepped; later stamps follow the new clock."""
    moving(rig)
    zero = np.zeros(6)
    joints = JointSample(SampleRef(Stream.JOINTS, rig.now_ns, 1), rig.model.joint_names, rig.q, zero)
    imu = ImuSample(SampleRef(Stream.IMU, rig.now_ns, 1), np.zeros(3), rig.accel)
    rig.gate.on_joints(joints, rig.now_ns, step_ns)
    rig.gate.on_imu(imu, rig.now_ns, step_ns)
    rig.gate.on_stream(SampleRef(Stream.CAMERA, rig.now_ns, 1), rig.now_ns, step_ns)
    rig.propose(rig.gate._arm.goals, (0.2, 0.0, 0.5))
    output = rig.tick()
    assert output.scale == 1.0
    assert rig.run(5, rig.gate._arm.goals, (0.2, 0.0, 0.5)).verdicts == ()


def test_pause_of_the_gate_is_named_and_not_made_up_for(rig: Any) -> None:
    moving(rig)
    before = rig.gate._arm.states[0][0]
    rig.now_ns += 500 * MS
    rig.sense()
    rig.propose([1.5, *rig.q[1:]], (0.2, 0.0, 0.5))
    output = rig.tick(0)
    assert any(v.check == Check.TICK_GAP.value for v in output.verdicts)
    assert output.command.position[0] == before


def test_ticks_that_come_too_fast_do_not_move_faster(rig: Any) -> None:
    rig.active()
    start_ns, start = rig.now_ns, rig.gate._arm.states[0][0]
    for _ in range(500):
        rig.sense()
        rig.propose([1.5, *rig.q[1:]])
        output = rig.tick(TICK_NS // 10)
    elapsed_s = (rig.now_ns - start_ns) * 1e-9
    assert output.command.position[0] - start <= 4.71 * (elapsed_s + 0.02)


def test_jitter_of_the_timer_loses_no_motion(rig: Any) -> None:
    rig.active()
    rng = np.random.default_rng(0)
    times = np.cumsum(np.full(200, TICK_NS)) + rng.integers(-4 * MS, 4 * MS, 200)
    q = np.array(rig.q)
    start_ns = rig.now_ns
    for t in np.sort(times):
        rig.sense()
        q[0] = min(q[0] + 0.005, 1.0)
        rig.propose(q)
        output = rig.tick(int(start_ns + t - rig.now_ns))
    assert abs(output.command.position[0] - q[0]) <= 0.03


def test_tipped_robot_is_a_latched_stop(rig: Any) -> None:
    moving(rig)
    rig.accel = 9.81 * np.array([math.sin(1.0), 0.0, math.cos(1.0)])
    rig.run(100, None, (0.2, 0.0, 0.0))
    assert rig.gate.mode is Mode.STOP


def test_tilt_slows_before_it_stops(rig: Any) -> None:
    moving(rig)
    rig.accel = 9.81 * np.array([math.sin(0.475), 0.0, math.cos(0.475)])
    output = rig.run(200, None, (0.3, 0.0, 0.0))
    assert output.mode is Mode.ACTIVE
    assert output.command.base_twist[0] == pytest.approx(0.15, rel=0.02)


def test_one_shock_is_a_latched_stop(rig: Any) -> None:
    moving(rig)
    ref = SampleRef(Stream.IMU, rig.now_ns, 1)
    rig.gate.on_imu(ImuSample(ref, np.zeros(3), np.array([90.0, 0.0, 9.81])), rig.now_ns)
    assert rig.run(1).mode is Mode.STOP


def test_dead_or_falling_imu_is_a_latched_stop(rig: Any) -> None:
    moving(rig)
    rig.accel = np.zeros(3)
    rig.run(100)
    assert rig.gate.mode is Mode.STOP


def test_latched_stop_is_left_only_by_reset_with_a_reason_and_then_needs_arming(rig: Any) -> None:
    moving(rig)
    rig.gate.emergency_stop("button")
    rig.run(100, None, (0.2, 0.0, 0.0))
    assert rig.gate.mode is Mode.STOP
    for event in Event:
        rig.gate.on_event(event, "please")
    with pytest.raises(InvalidInputError, match="mode"):
        rig.gate.arm("please")
    for reason in ("", "   ", None):
        with pytest.raises(InvalidInputError, match="reason"):
            rig.gate.reset_stop(reason)
    assert rig.gate.mode is Mode.STOP
    rig.gate.reset_stop("cause removed")
    rig.run(20, None, (0.2, 0.0, 0.0))
    assert rig.gate.mode is Mode.INIT
    rig.active()


def test_reset_is_refused_while_set_points_still_move(rig: Any) -> None:
    moving(rig)
    rig.gate.emergency_stop("button")
    rig.tick()
    with pytest.raises(InvalidInputError, match="standstill"):
        rig.gate.reset_stop("too early")
    assert rig.gate.mode is Mode.STOP


def test_no_set_points_are_given_before_joints_are_known(rig: Any) -> None:
    rig.gate.arm("test")
    rig.streams.discard(Stream.JOINTS)
    output = rig.run(5, None, (0.2, 0.0, 0.0))
    assert output.command.joint_names == ()
    assert not output.command.base_twist.any()
    assert output.mode is Mode.INIT


def test_arming_waits_for_every_fitted_sensor_and_lapses(rig: Any) -> None:
    rig.streams.discard(Stream.CAMERA)
    rig.gate.arm("test")
    rig.run(520)
    assert rig.gate.mode is Mode.INIT
    rig.streams.add(Stream.CAMERA)
    rig.run(5)
    assert rig.gate.mode is Mode.INIT
    rig.active()


def test_unarmed_gate_lets_nothing_pass(rig: Any) -> None:
    output = rig.run(50, [1.0, *rig.q[1:]], (0.3, 0.0, 0.0))
    np.testing.assert_array_equal(output.command.position, rig.q)
    assert not output.command.base_twist.any()


def test_arming_holds_the_arm_where_it_was_moved_by_hand(rig: Any) -> None:
    moving(rig)
    rig.gate.emergency_stop("button")
    rig.run(50)
    rig.gate.reset_stop("all clear")
    rig.q = np.array([-0.5, -1.0, 1.6, 0.95, 0.0, 0.01])
    rig.run(2)
    rig.gate.arm("ready")
    rig.sense()
    np.testing.assert_array_equal(rig.tick().command.position, rig.q)


def test_stop_of_the_drivers_watchdog_is_taken_over_from_where_it_stands(rig: Any) -> None:
    moving(rig)
    where = np.array(rig.q) + 0.1
    # As it comes back through the standard messages, which name no decision.
    command = dataclasses.replace(rig.command(where), decision_id=NO_DECISION, source=Source.GATE)
    rig.gate.on_executed(ExecutedCommand(SampleRef(Stream.EXECUTED, rig.now_ns, 1), command, True))
    rig.q = where
    output = rig.run(1)
    np.testing.assert_array_equal(output.command.position, where)
    assert any(v.check == Check.WATCHDOG.value for v in output.verdicts)


def test_source_that_the_mode_does_not_allow_is_stopped(rig: Any) -> None:
    rig.active()
    rig.gate.on_event(Event.DEGRADE, "arbiter")
    output = rig.run(1, source=Source.STUDENT)
    assert output.scale == 0.0
    assert any(v.check == Check.SOURCE.value and "student" in v.reason for v in output.verdicts)
    assert rig.run(1, source=Source.FALLBACK).scale == 1.0


def test_safe_mode_lets_only_white_listed_primitives_pass(rig: Any) -> None:
    rig.active()
    rig.gate.on_event(Event.SAFE, "breaker")
    rig.gate.on_decision(7, Primitive.GRASP)
    rig.gate.on_decision(8, Primitive.RETREAT)
    assert rig.run(1, decision_id=7).scale == 0.0
    assert rig.run(1, decision_id=9).scale == 0.0
    assert rig.run(1, decision_id=8).scale == 1.0
    assert rig.gate.mode is Mode.SAFE


def test_slow_mode_moves_arm_and_base_at_its_share(rig: Any) -> None:
    rig.active()
    rig.gate.on_event(Event.SLOW, "drift")
    rig.run(60, [1.5, *rig.q[1:]], (0.3, 0.0, 0.0))
    before = rig.gate._arm.states[0][0]
    output = rig.run(1, [1.5, *rig.q[1:]], (0.3, 0.0, 0.0))
    share = 0.5  # modes.slow.speed_share of config/safety.yaml
    assert output.command.position[0] - before == pytest.approx(share * 4.71 * 0.01)
    assert output.command.base_twist[0] == pytest.approx(share * 0.3)


def test_lost_command_does_not_lead_out_of_a_restricted_mode(rig: Any) -> None:
    rig.active()
    rig.gate.on_event(Event.SLOW, "drift")
    for _ in range(50):
        rig.sense()
        rig.tick()
    rig.run(5)
    assert rig.gate.mode is Mode.SLOW


FITTED = (Hardware.SERVO_TEMPERATURE, Hardware.SERVO_CURRENT, Hardware.SERVO_VOLTAGE, Hardware.GRIPPER_EFFORT)


def healthy(rig: Any, **changes: Any) -> ServoSample:
    values = {
        "temperature_c": (30.0,) * 6,
        "current_a": (0.3,) * 6,
        "voltage_v": (12.0,) * 6,
        "effort": (1.0,) * 6,
    }
    return ServoSample(rig.model.joint_names, **{**values, **changes})


def servo_rig(make_rig: Any) -> Any:
    rig = make_rig(not_fitted=())
    rig.gate.on_servos(healthy(rig), rig.now_ns)
    return rig.active()


@pytest.mark.parametrize(("change", "check"), [
    ({"temperature_c": (30.0,) * 5 + (66.0,)}, Check.SERVO_TEMPERATURE),
    ({"current_a": (-3.0,) + (0.0,) * 5}, Check.SERVO_CURRENT),
    ({"voltage_v": (12.0,) * 5 + (8.0,)}, Check.SERVO_VOLTAGE),
    ({"voltage_v": None}, Check.MALFORMED),
    ({"current_a": (math.nan,) * 6}, Check.FINITE),
])  # fmt: skip
def test_unhealthy_servo_stops_and_is_named(make_rig: Any, change: dict[str, Any], check: Check) -> None:
    rig = servo_rig(make_rig)
    rig.gate.on_servos(healthy(rig, **change), rig.now_ns)
    output = rig.run(1)
    assert output.scale == 0.0
    assert check.value in {v.check for v in output.verdicts}
    rig.gate.on_servos(healthy(rig), rig.now_ns)
    assert rig.run(2).mode is Mode.ACTIVE


def test_silent_servos_stop_where_they_are_fitted(make_rig: Any) -> None:
    rig = servo_rig(make_rig)
    assert rig.run(60).scale == 0.0


def test_gripper_that_presses_too_hard_may_open_but_not_close(make_rig: Any) -> None:
    rig = servo_rig(make_rig)
    for _ in range(10):
        rig.gate.on_servos(healthy(rig, effort=(0.0,) * 5 + (20.0,)), rig.now_ns)
        output = rig.run(1, [0.05, *rig.q[1:5], 0.0])
    assert output.command.position[5] == rig.q[5]
    assert output.command.position[0] == 0.05
    for _ in range(60):
        rig.gate.on_servos(healthy(rig, effort=(0.0,) * 5 + (20.0,)), rig.now_ns)
        output = rig.run(1, [0.05, *rig.q[1:5], 0.028])
    assert output.command.position[5] == 0.028
