"""Servo lag as stated in a profile, and the base's drive."""

from __future__ import annotations

import numpy as np
import pytest

from tether.world.model import SUBSTEP_NS, SUBSTEPS_PER_TICK
from tether.world.servo import Drive, ServoBank

_DT = SUBSTEP_NS * 1e-9


def _response(dead_s: float, tau_s: float, step: float, v_max: float = 4.71, ticks: int = 100) -> np.ndarray:
    servo = ServoBank(np.array([v_max, v_max]))
    servo.configure(dead_s, tau_s)
    servo.reset(np.zeros(2))
    rows = [servo.advance(np.array([step, 0.0])).copy() for _ in range(ticks)]
    return np.concatenate(rows)


@pytest.mark.parametrize("dead_s", [0.0, 0.030, 0.0325, 0.0375, 0.1])
def test_nothing_moves_within_the_dead_time_and_the_lag_starts_right_after(dead_s: float) -> None:
    x = _response(dead_s, 0.1, 0.1)[:, 0]
    dead_steps = round(dead_s / _DT)
    assert (x[:dead_steps] == 0.0).all()
    t = (np.arange(len(x)) + 1 - dead_steps) * _DT
    np.testing.assert_allclose(x[dead_steps:], 0.1 * (1 - np.exp(-t[dead_steps:] / 0.1)), atol=1e-12)


def test_command_to_63_percent_takes_dead_time_plus_time_constant() -> None:
    x = _response(0.030, 0.100, 0.1)[:, 0]
    assert (np.argmax(x >= 0.1 * (1 - np.exp(-1))) + 1) * _DT == pytest.approx(0.130, abs=1.01 * _DT)


def test_velocity_limit_holds_for_any_step() -> None:
    x = _response(0.03, 0.1, 3.0, v_max=4.71)
    assert np.abs(np.diff(x[:, 0], prepend=0.0)).max() <= 4.71 * _DT + 1e-12
    assert x[-1, 0] == pytest.approx(3.0, abs=0.02)
    assert (x[:, 1] == 0.0).all()


def test_velocity_limit_and_exact_lag_agree_where_the_limit_does_not_bind() -> None:
    free, limited = _response(0.03, 0.1, 0.1, v_max=100.0), _response(0.03, 0.1, 0.1, v_max=1.01)
    np.testing.assert_allclose(free, limited, atol=1e-12)


def test_reset_forgets_commands_under_way() -> None:
    servo = ServoBank(np.array([4.0]))
    servo.configure(0.05, 0.1)
    servo.reset(np.zeros(1))
    servo.advance(np.ones(1))
    servo.reset(np.full(1, 0.5))
    rows = [servo.advance(np.full(1, 0.5)).copy() for _ in range(20)]
    assert (np.concatenate(rows) == 0.5).all()
    assert rows[0].shape == (SUBSTEPS_PER_TICK, 1)


def test_drive_turns_a_body_twist_into_a_circle_and_stops_within_its_limits() -> None:
    drive = Drive(0.125)
    drive.configure(0.0, 0.0, 10.0)
    drive.reset()
    twist = np.array([0.1, 0.0, 0.5])
    for _ in range(round(2 * np.pi / 0.5 * 100)):
        drive.advance(twist)
    np.testing.assert_allclose(drive.pose[:2], 0.0, atol=5e-3)
    drive.configure(0.03, 0.1, 1.0)
    for _ in range(200):
        drive.advance(np.zeros(3))
    assert drive.twist == (0.0, 0.0, 0.0) and not drive.moving
