"""What passes unharmed, what is restricted and how, and that braking always ends inside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.contracts import Mode, Source, Stream, Verdict
from tether.robot.model import RobotModel
from tether.safety import checks
from tether.safety.kinematics import PointChain
from tether.safety.limiter import AxisLimits, brake, follow, stopping_distance
from tether.safety.motion import BaseMotion
from tether.safety.settings import TICK_S, BaseLimits, Check
from tether.safety.workspace import box_distance, box_room, cylinder_distance, inside_cylinder, outside_box

LIMITS = AxisLimits("joint", -1.0, 1.0, 4.0, 60.0, 0.8 * 60.0 * 1.5)


def test_smooth_tracking_at_the_servos_speed_passes_bit_for_bit(rig: Any) -> None:
    rig.active()
    size, rate = 0.5, 9.0
    position = np.array(rig.home)
    for k in range(300):
        angle = rate * k * TICK_S
        q = position.copy()
        q[0] = size * (1.0 - math.cos(angle)) / 1.0
        velocity = np.zeros(6)
        velocity[0] = size * rate * math.sin(angle)
        output = rig.run(1, q, (0.1, 0.0, 0.0), velocity=velocity)
        if k > 15:
            assert output.verdicts == ()
        np.testing.assert_array_equal(output.command.position, q)
        np.testing.assert_array_equal(output.command.velocity, velocity)


def test_set_points_that_lead_a_reversing_target_by_the_servos_lag_pass_unharmed(rig: Any) -> None:
    """A target that turns about at 25 rad/s² on a 45 mm circle, followed with the inverse of a lag of 0.1 s."""
    rig.active()
    q, rate, accel, lag = 0.0, 0.0, 0.0, 0.1
    restricted = 0
    for k in range(600):
        wanted = 1.3 if (k // 120) % 2 == 0 else -1.3
        step = math.copysign(min(abs(wanted - rate) / TICK_S, 25.0), wanted - rate)
        accel += max(-400.0 * TICK_S, min(400.0 * TICK_S, step - accel))
        rate += accel * TICK_S
        q += rate * TICK_S
        output = rig.run(1, [0.3 * q + lag * 0.3 * rate, *rig.home[1:]], velocity=np.array([0.3 * rate] + [0.0] * 5))
        restricted += bool(output.verdicts) and k > 5
    assert restricted == 0


def test_a_jump_is_limited_to_the_admissible_next_set_point_and_arrives_without_overshoot(rig: Any) -> None:
    rig.active()
    goal = [1.0, *rig.home[1:]]
    path = []
    names: set[str] = set()
    for _ in range(60):
        output = rig.run(1, goal)
        path.append(output.command.position[0])
        names |= {v.check for v in output.verdicts}
    assert path[0] > 0.0
    assert max(path) <= 1.0
    assert path[-1] == 1.0
    assert len(path) - path.count(1.0) <= 1.0 / (4.71 * TICK_S) + 6
    assert {Check.JOINT_VELOCITY.value, Check.JOINT_ACCELERATION.value} <= names


def test_command_beyond_a_joint_limit_stops_at_the_limit_and_names_it(rig: Any) -> None:
    rig.active()
    output = rig.run(120, [3.0, *rig.home[1:]])
    assert output.command.position[0] == pytest.approx(1.92, abs=1e-12)
    verdict = next(v for v in output.verdicts if v.check == Check.JOINT_POSITION.value)
    assert "shoulder_pan" in verdict.reason


def test_slow_joint_does_not_hold_up_the_others(rig: Any) -> None:
    rig.active()
    output = rig.run(10, [0.05, *rig.home[1:5], 0.0])
    assert output.command.position[0] == 0.05


def test_arm_outside_its_limits_may_come_back_but_not_go_further(rig: Any) -> None:
    rig.follows = False
    rig.q = np.array([2.2, *rig.home[1:]])
    rig.active_at(rig.q)
    assert rig.run(1, [2.2, *rig.home[1:]]).command.position[0] <= 2.2
    rig.follows = True
    assert rig.run(200, [0.0, *rig.home[1:]]).command.position[0] == 0.0


def test_tool_is_kept_out_of_the_chassis_and_can_back_out(rig: Any) -> None:
    rig.active()
    inside = [0.0, -1.75, 2.3, 1.6, 0.0, 0.02]
    output = rig.run(200, inside)
    assert any(v.check == Check.WORKSPACE.value for v in output.verdicts)
    output = rig.run(300, rig.home)
    np.testing.assert_allclose(output.command.position, rig.home, atol=1e-9)


def test_motion_along_a_boundary_goes_on(rig: Any) -> None:
    """A goal under the ground and to the side: the tool stays above and still gets to the side."""
    rig.active()
    under = [0.8, -0.2, 1.6, 0.3, 0.0, 0.02]
    output = rig.run(300, under)
    assert output.command.position[0] == pytest.approx(0.8, abs=0.02)
    p = PointChain(rig.robot, "tcp", rig.model.joint_names)(output.command.position.tolist())
    assert p[2] >= rig.settings.workspace.box.low_m[2] - 1e-6


def test_stop_takes_leading_set_points_back_to_the_joints_but_keeps_the_grip(rig: Any) -> None:
    rig.active()
    rig.follows = False
    q = np.array(rig.home)
    for _ in range(20):
        q[0] += 0.02
        rig.q = q - np.array([0.2, 0.0, 0.0, 0.0, 0.0, -0.008])
        rig.run(1, q)
    joints = rig.q.copy()
    for _ in range(60):
        rig.sense()
        output = rig.tick()
    assert output.command.position[0] == pytest.approx(joints[0], abs=1e-9)
    assert output.command.position[5] == q[5]


def test_stop_without_knowing_the_joints_holds_where_braking_ends(rig: Any) -> None:
    rig.active()
    q = np.array(rig.home)
    for _ in range(20):
        q[0] += 0.02
        rig.run(1, q)
    rig.streams.clear()
    for _ in range(60):
        output = rig.tick()
    assert q[0] <= output.command.position[0] <= q[0] + 0.1
    assert rig.still(output)


@settings(max_examples=300, deadline=None)
@given(st.floats(-1, 1), st.floats(-4, 4), st.floats(-60, 60))
def test_stopping_distance_is_what_braking_really_takes(q: float, v: float, a: float) -> None:
    predicted = q + stopping_distance(v, a, LIMITS)
    state = (q, v, a)
    for _ in range(60):
        state = brake(state, LIMITS)
    assert state[1] == 0.0
    assert state[0] == pytest.approx(predicted, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-50, 50), st.floats(0.05, 1)), min_size=1, max_size=60))
def test_one_axis_keeps_every_limit_whatever_is_asked(asked: list[tuple[float, float, float]]) -> None:
    state = (0.0, 0.0, 0.0)
    for goal, rate, share in asked:
        q, _, a = state
        state = follow(state, goal, rate, share * LIMITS.v_max, LIMITS)
        assert abs(state[1]) <= LIMITS.v_max + 1e-9
        assert abs(state[2]) <= LIMITS.a_max * (1 + 1e-9)
        assert abs(state[2] - a) <= LIMITS.j_step * (1 + 1e-9)
        assert -1 - 1e-9 <= state[0] <= 1 + 1e-9
        assert state[0] == pytest.approx(q + state[1] * TICK_S, abs=1e-12)
        assert -1 - 1e-9 <= state[0] + stopping_distance(state[1], state[2], LIMITS) <= 1 + 1e-9


def test_linear_and_angular_speed_of_the_base_are_limited_apart() -> None:
    base = BaseMotion(BaseLimits(0.3, 1.5, 20.0, 100.0))
    for _ in range(10):
        verdicts = base.advance((0.6, 0.8, 1.0), 1.0)
    assert [v.check for v in verdicts] == [Check.BASE_LINEAR.value]
    np.testing.assert_allclose(base.twist, (0.18, 0.24, 1.0), rtol=1e-12)
    for _ in range(10):
        verdicts = base.advance((0.1, 0.0, -9.0), 1.0)
    assert [v.check for v in verdicts] == [Check.BASE_ANGULAR.value]
    np.testing.assert_allclose(base.twist, (0.1, 0.0, -1.5), rtol=1e-12)


def test_base_stops_along_its_direction_within_its_limits() -> None:
    base = BaseMotion(BaseLimits(0.3, 1.5, 2.0, 10.0))
    base.anchor((0.24, 0.18, 1.0))
    for _ in range(14):
        base.stop()
        vx, vy, _ = base.twist
        assert vy * 4 == pytest.approx(vx * 3)
    base.stop()
    base.stop()
    assert base.standstill()


@pytest.mark.parametrize("link", ["tcp", "tool0", "wrist_link", "forearm_link", "finger_left_link"])
def test_fast_kinematics_agree_with_the_robot_model(robot: RobotModel, rig: Any, link: str) -> None:
    rng = np.random.default_rng(0)
    chain = PointChain(robot, link, rig.model.joint_names)
    names = rig.model.joint_names
    low, high = np.array([a.lower for a in rig.model.axes]), np.array([a.upper for a in rig.model.axes])
    for _ in range(50):
        q = rng.uniform(low, high)
        still = {name: 0.0 for name in robot.joint_names if name not in names}
        p, _ = robot.transform(robot.root, link, {**still, **dict(zip(names, q.tolist(), strict=True))})
        np.testing.assert_allclose(chain(q.tolist()), p, atol=1e-12)


def test_levers_bound_how_far_a_joint_moves_the_point(robot: RobotModel, rig: Any) -> None:
    rng = np.random.default_rng(1)
    chain = PointChain(robot, "tcp", rig.model.joint_names)
    for _ in range(200):
        a, b = rng.uniform(-1.5, 1.5, (2, 6))
        moved = math.dist(chain(a.tolist()), chain(b.tolist()))
        assert moved <= sum(lever * abs(x) for lever, x in zip(chain.levers, b - a, strict=True)) + 1e-12


def test_room_is_free_of_forbidden_space_in_every_direction(rig: Any) -> None:
    limits = rig.settings.workspace
    rng = np.random.default_rng(2)
    for _ in range(300):
        p = rng.uniform((-0.2, -0.4, -0.1), (0.5, 0.4, 0.5))
        zones = limits.keep_out_cylinders.values()
        room = min(box_room(tuple(p), limits.box), *(cylinder_distance(tuple(p), c) for c in zones))
        if room == 0.0:
            continue
        for direction in rng.normal(size=(20, 3)):
            there = tuple(p + 0.999 * room * direction / np.linalg.norm(direction))
            assert outside_box(there, limits.box) == 0.0
            assert all(inside_cylinder(there, c) == 0.0 for c in zones)


def test_distance_from_a_box_is_zero_inside_and_euclidean_outside(rig: Any) -> None:
    box = rig.settings.workspace.box
    assert box_distance((0.0, 0.0, 0.2), box) == 0.0
    assert box_distance((box.high_m[0] + 3.0, box.high_m[1] + 4.0, 0.2), box) == pytest.approx(5.0)


def test_most_restrictive_verdict_wins_and_a_scale_that_is_no_number_counts_as_worst() -> None:
    verdicts = [Verdict("a", 1.0), Verdict("b", 0.5), Verdict("c", 0.2), Verdict("d", 0.2)]
    assert checks.most_restrictive(verdicts) is verdicts[2]
    assert checks.most_restrictive(verdicts[:1]) is None
    assert checks.most_restrictive([]) is None
    assert checks.most_restrictive([Verdict("n", math.nan), verdicts[2]]).check == "n"


def test_every_check_is_a_function_that_passes_inside_and_says_why_outside(rig: Any) -> None:
    imu, servos, gripper = rig.settings.imu, rig.settings.servos, rig.settings.gripper
    rules = rig.settings.modes.degraded
    cases = [
        (checks.command_age, (80, 80), (81, 80)),
        (checks.sensor_silence, (Stream.IMU, 5, 5), (Stream.IMU, 6, 5)),
        (checks.stamp_age, (Stream.IMU, 5, 5), (Stream.IMU, None, 5)),
        (checks.source, (Source.TEACHER, Mode.DEGRADED, rules), (Source.STUDENT, Mode.DEGRADED, rules)),
        (checks.tilt, (0.1, imu), (1.0, imu)),
        (checks.shock, (59.0, imu), (61.0, imu)),
        (checks.free_fall, (9.8, imu), (0.1, imu)),
        (checks.servo_temperature, (("a",), (50.0,), servos), (("a",), (80.0,), servos)),
        (checks.servo_current, (("a",), (-1.0,), servos), (("a",), (-9.0,), servos)),
        (checks.servo_voltage, (("a",), (12.0,), servos), (("a",), (14.0,), servos)),
        (checks.gripper_effort, (-5.0, gripper), (-50.0, gripper)),
        (checks.joint_position, (0.5, 0.0, LIMITS), (2.0, 0.0, LIMITS)),
        (checks.joint_velocity, (4.0, 4.0, LIMITS), (4.1, 4.0, LIMITS)),
        (checks.joint_acceleration, (60.0, LIMITS), (-61.0, LIMITS)),
        (checks.joint_jerk, (1.0, 0.01, LIMITS), (1e9, 0.01, LIMITS)),
        (checks.base_linear, (0.3, 0.3), (0.31, 0.3)),
        (checks.base_angular, (-1.5, 1.5), (-1.6, 1.5)),
        (checks.joint_names, (("a", "b"), ("b", "a")), (("a",), ("a", "b"))),
        (checks.finite, ([("x", [1.0])], ("a",)), ([("x", [math.nan])], ("a",))),
    ]
    for check, good, bad in cases:
        assert check(*good).scale == 1.0, check
        verdict = check(*bad)
        assert 0.0 <= verdict.scale < 1.0, check
        assert verdict.reason, check


def test_stop_comes_to_standstill_even_where_the_joints_lie_in_forbidden_space(rig: Any) -> None:
    rig.active()
    rig.run(200, [0.0, -1.75, 2.3, 1.6, 0.0, 0.02])
    rig.follows = False
    rig.q = rig.q + np.array([0.0, 0.1, 0.1, 0.1, 0.0, 0.0])
    rig.gate.emergency_stop("test")
    for _ in range(80):
        rig.sense()
        output = rig.tick()
    assert rig.still(output)
    rig.gate.reset_stop("test")
