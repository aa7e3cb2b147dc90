"""Closed kinematics of the arm against the robot model's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.assembly import robot
from tether.contracts import F64
from tether.motion.kinematics import ArmKinematics
from tether.robot.roles import ARM_JOINTS

ARM = ArmKinematics(robot())
_INDEX = [robot().joint_names.index(name) for name in ARM_JOINTS]
_POINT = st.tuples(st.floats(0.19, 0.29), st.floats(-0.09, 0.09), st.floats(0.005, 0.11))


def _full(q: F64) -> F64:
    full = np.zeros(len(robot().joint_names))
    full[_INDEX] = q
    return full


@settings(max_examples=200, deadline=None)
@given(_POINT, st.floats(-1.5, 1.5))
def test_inverse_puts_the_tcp_there_with_the_tool_down_and_the_fingers_turned(
    point: tuple[float, float, float], yaw: float
) -> None:
    p = ARM.reachable(np.array(point))
    q, _ = ARM.inverse(p, np.zeros(3), yaw)
    at, rotation = robot().transform("base_link", "tcp", _full(q))
    np.testing.assert_allclose(at, p, atol=1e-9)
    np.testing.assert_allclose(rotation[:, 2], [0.0, 0.0, -1.0], atol=1e-9)
    across = rotation[:, 1]
    turned = np.array([-np.sin(yaw), np.cos(yaw), 0.0])
    assert abs(across @ turned) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(ARM.tcp(q), at, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(_POINT, st.tuples(*[st.floats(-0.3, 0.3)] * 3))
def test_rates_move_the_tcp_at_the_asked_velocity_without_turning_the_tool(
    point: tuple[float, float, float], velocity: tuple[float, float, float]
) -> None:
    p, v = ARM.reachable(np.array(point)), np.array(velocity)
    q, rates = ARM.inverse(p, v, -0.7)
    twist = robot().jacobian("base_link", "tcp", _full(q))[:, _INDEX] @ rates
    np.testing.assert_allclose(twist, [*v, 0.0, 0.0, 0.0], atol=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.floats(-0.5, 0.6)))
def test_any_point_at_all_gives_joints_within_their_limits(point: tuple[float, float, float]) -> None:
    q, rates = ARM.inverse(np.array(point), np.array([0.1, 0.0, 0.0]), 0.3)
    assert np.isfinite(q).all() and np.isfinite(rates).all()
    assert (q >= ARM.lower[:5]).all() and (q <= ARM.upper[:5]).all()


def test_task_start_poses_point_the_tool_down() -> None:
    from tether.assembly import task

    for name in ("pick", "pick_moving"):
        start = task(name).start
        assert start["shoulder_lift"] + start["elbow_flex"] + start["wrist_flex"] == pytest.approx(np.pi / 2, abs=0.01)
