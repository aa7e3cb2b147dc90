"""Delays that are known are found again."""

from __future__ import annotations

import numpy as np
import pytest

from tether.calibrate.delays import actuator_lag, motion_in, sample_delay, seen_lag, steps
from tether.errors import TetherError

TICK_S = 0.01


def lagged(
    command_s: np.ndarray, command: np.ndarray, at_s: np.ndarray, dead_s: float, constant_s: float
) -> np.ndarray:
    """A first-order lag behind a dead time, integrated in steps of 0.1 ms."""
    grid = np.arange(command_s[0], at_s[-1] + 1e-4, 1e-4)
    told = command[np.clip(np.searchsorted(command_s, grid - dead_s, side="right") - 1, 0, None)]
    x, out = told[0], np.empty_like(grid)
    for i, value in enumerate(told):
        x += (value - x) * 1e-4 / constant_s
        out[i] = x
    return np.interp(at_s, grid, out)


@pytest.mark.parametrize(("dead_s", "constant_s"), [(0.030, 0.100), (0.012, 0.045), (0.080, 0.200)])
def test_dead_time_and_lag_of_a_joint_are_told_apart_within_3_ms(dead_s: float, constant_s: float) -> None:
    rng = np.random.default_rng(0)
    command_s = 5.0 + TICK_S * np.arange(1000)
    command = 0.4 + steps(0.08, 10.0, TICK_S)
    joint_s = command_s + 0.0007
    joint = lagged(command_s, command, joint_s, dead_s, constant_s) - 0.01 + rng.normal(0.0, 0.0008, 1000)
    found = actuator_lag(command_s, command, joint_s, joint)
    assert found.dead_time_s == pytest.approx(dead_s, abs=0.003)
    assert found.time_constant_s == pytest.approx(constant_s, abs=0.003)
    assert found.gain == pytest.approx(1.0, abs=0.02)


def test_a_joint_that_does_not_follow_is_refused() -> None:
    command_s, command = TICK_S * np.arange(500), steps(0.08, 5.0, TICK_S)
    noise = np.random.default_rng(0).normal(0.0, 0.001, 500)
    with pytest.raises(TetherError, match="nothing may block the arm"):
        actuator_lag(command_s, command, command_s, noise)
    with pytest.raises(TetherError, match="a goal that moves"):
        actuator_lag(command_s, np.zeros(500), command_s, noise)


def pictures(at: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """A bright bar that stands at column 60 + 100 · at, with a sensor's noise."""
    columns = np.arange(128.0)
    return [
        np.clip(
            100.0 * np.exp(-(((columns - 60.0 - 100.0 * x) / 8.0) ** 2))[None, :, None]
            + rng.normal(60, 4, (96, 128, 3)),
            0,
            255,
        ).astype(np.uint8)
        for x in at
    ]


@pytest.mark.parametrize("stamp_error_s", [0.0, 0.025])
def test_motion_to_photon_is_found_within_5_ms_and_so_is_an_error_of_the_stamps(stamp_error_s: float) -> None:
    rng = np.random.default_rng(1)
    joint_s = TICK_S * np.arange(800)
    joint = lagged(joint_s, steps(0.08, 8.0, TICK_S), joint_s, 0.03, 0.1)
    true_s = np.arange(0.2, 7.5, 1.0 / 30.0)
    arrival_s = true_s + 0.120 + rng.uniform(-0.02, 0.02, len(true_s))
    seen = motion_in(pictures(np.interp(true_s, joint_s, joint), rng))
    found = seen_lag(true_s + stamp_error_s, arrival_s, seen, joint_s, joint)
    assert found.stamp_s == pytest.approx(stamp_error_s, abs=0.005)
    assert found.arrival_s == pytest.approx(0.120, abs=0.005)
    assert found.correlation > 0.95


def test_a_camera_that_did_not_see_the_arm_is_refused() -> None:
    rng = np.random.default_rng(2)
    joint_s = TICK_S * np.arange(800)
    joint = lagged(joint_s, steps(0.08, 8.0, TICK_S), joint_s, 0.03, 0.1)
    true_s = np.arange(0.2, 7.5, 1.0 / 30.0)
    seen = motion_in(pictures(np.zeros(len(true_s)), rng))
    with pytest.raises(TetherError, match="the arm in the picture"):
        seen_lag(true_s, true_s + 0.1, seen, joint_s, joint)


def test_latency_jitter_and_losses_of_a_sensor() -> None:
    rng = np.random.default_rng(3)
    stamps = [round(1e9 * i / 30.0) for i in range(600) if i % 50]
    arrivals = [(stamp, stamp + round(1e9 * rng.uniform(0.10, 0.14))) for stamp in stamps]
    found = sample_delay(arrivals, 1.0 / 30.0)
    assert found.latency_s == pytest.approx(0.120, abs=0.003)
    assert found.jitter_s == pytest.approx(0.020, abs=0.002)
    assert found.drop == pytest.approx(0.02, abs=0.003)
    with pytest.raises(TetherError, match="is it connected"):
        sample_delay(arrivals[:5], 1.0 / 30.0)
