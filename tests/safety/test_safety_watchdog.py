"""Claims about the second, independent command watchdog."""

from __future__ import annotations

import ast
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether.safety.watchdog as watchdog_module
from tether.contracts import TICK_NS, Command, Source
from tether.errors import InvalidInputError
from tether.safety.watchdog import Watchdog, WatchdogLimits

NAMES = ("pan", "lift")
TIMEOUT_NS = 5 * TICK_NS
TICK_S = TICK_NS * 1e-9


def limits(**changes: object) -> WatchdogLimits:
    values: dict[str, object] = {
        "timeout_ns": TIMEOUT_NS,
        "joint_names": NAMES,
        "velocity_max": np.array([4.0, 4.0]),
        "acceleration_max": np.array([40.0, 20.0]),
        "base_linear_m_s2": 1.0,
        "base_angular_rad_s2": 5.0,
    }
    return WatchdogLimits(**{**values, **changes})  # type: ignore[arg-type]


def command(tick: int, position: list[float], twist: tuple[float, ...] = (0.0, 0.0, 0.0), **changes: object) -> Command:
    values: dict[str, object] = {
        "tick": tick,
        "stamp_ns": tick * TICK_NS,
        "decision_id": tick // 5,
        "source": Source.CLASSIC,
        "joint_names": NAMES,
        "position": np.array(position),
        "velocity": np.zeros(len(position)),
        "base_twist": np.array(twist),
    }
    return Command(**{**values, **changes})  # type: ignore[arg-type]


def moving(dog: Watchdog, ticks: int = 10, velocity: float = 2.0, twist: tuple[float, ...] = (0.2, 0.1, 1.0)) -> int:
    for tick in range(ticks):
        assert dog.feed(command(tick, [velocity * TICK_S * tick, 0.0], twist), tick * TICK_NS)
    return ticks


def test_watchdog_is_not_expired_before_the_first_command() -> None:
    assert not Watchdog(limits()).expired(10**12)


def test_watchdog_expires_just_after_its_timeout_and_not_before() -> None:
    dog = Watchdog(limits())
    dog.feed(command(0, [0.0, 0.0]), 100)
    assert not dog.expired(100 + TIMEOUT_NS)
    assert dog.expired(101 + TIMEOUT_NS)


def test_fed_watchdog_never_expires() -> None:
    dog = Watchdog(limits())
    moving(dog, 500, velocity=0.1)
    assert not dog.expired(500 * TICK_NS)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["position", "velocity", "base_twist"])
def test_non_finite_command_does_not_feed_the_watchdog(bad: float, field: str) -> None:
    dog = Watchdog(limits())
    dog.feed(command(0, [0.0, 0.0]), 0)
    values = np.zeros(3 if field == "base_twist" else 2)
    values[1] = bad
    assert not dog.feed(dataclasses.replace(command(1, [0.0, 0.0]), **{field: values}), TIMEOUT_NS)
    assert dog.expired(TIMEOUT_NS + 1)


def test_command_with_wrong_joints_does_not_feed_the_watchdog() -> None:
    dog = Watchdog(limits())
    assert not dog.feed(command(0, [0.0], joint_names=("pan",)), 0)
    assert not dog.feed(command(0, [0.0, 0.0, 0.0], joint_names=(*NAMES, "extra")), 0)
    assert not dog.feed(command(0, [0.0, 0.0], joint_names=("pan", "pan")), 0)


def test_joints_are_matched_by_name() -> None:
    dog = Watchdog(limits())
    dog.feed(command(0, [1.0, 2.0], joint_names=("lift", "pan")), 0)
    assert dog.stop_command(TICK_NS).position.tolist() == [2.0, 1.0]


def test_clock_running_backwards_expires_the_watchdog_for_good() -> None:
    dog = Watchdog(limits())
    dog.feed(command(0, [0.0, 0.0]), 10 * TICK_NS)
    assert dog.expired(9 * TICK_NS)
    dog.feed(command(1, [0.0, 0.0]), 11 * TICK_NS)
    assert dog.expired(11 * TICK_NS)


def test_controlled_stop_brakes_base_and_arm_within_limits_and_then_holds() -> None:
    dog = Watchdog(limits())
    tick = moving(dog) + 6
    assert dog.expired(tick * TICK_NS)
    position, velocity, twist = (
        np.array([2.0 * TICK_S * 9, 0.0]),
        np.array([2.0, 0.0]),
        np.array([0.2, 0.1, 1.0]),
    )
    for _ in range(60):
        stop = dog.stop_command(tick * TICK_NS)
        assert np.all(np.abs(stop.velocity - velocity) <= np.array([40.0, 20.0]) * TICK_S + 1e-12)
        np.testing.assert_allclose(stop.position - position, stop.velocity * TICK_S, atol=1e-12)
        assert np.linalg.norm(stop.base_twist[:2] - twist[:2]) <= 1.0 * TICK_S + 1e-12
        assert abs(stop.base_twist[2] - twist[2]) <= 5.0 * TICK_S + 1e-12
        position, velocity, twist = stop.position, stop.velocity, stop.base_twist
        tick += 1
    assert not velocity.any() and not twist.any()
    np.testing.assert_array_equal(dog.stop_command(tick * TICK_NS).position, position)


def test_stop_brakes_no_faster_than_the_top_speed_allows_after_a_jump() -> None:
    dog = Watchdog(limits())
    dog.feed(command(0, [0.0, 0.0]), 0)
    dog.feed(command(1, [100.0, 0.0]), TICK_NS)
    assert abs(dog.stop_command(10 * TICK_NS).velocity[0]) <= 4.0


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=30), st.floats(-0.3, 0.3), st.floats(-1.5, 1.5))
@settings(max_examples=100, deadline=None)
def test_stop_always_comes_to_standstill(path: list[float], vx: float, wz: float) -> None:
    dog = Watchdog(limits())
    for tick, q in enumerate(path):
        dog.feed(command(tick, [q, -q], (vx, vx, wz)), tick * TICK_NS)
    now = (len(path) + 6) * TICK_NS
    for k in range(60):
        stop = dog.stop_command(now + k * TICK_NS)
        assert np.all(np.isfinite(stop.position))
    assert not stop.velocity.any() and not stop.base_twist.any()


@pytest.mark.parametrize(
    "change",
    [
        {"timeout_ns": 0},
        {"velocity_max": np.array([0.0, 1.0])},
        {"acceleration_max": np.array([math.inf, 1.0])},
        {"base_linear_m_s2": 0.0},
        {"base_angular_rad_s2": math.nan},
    ],
)
def test_limits_that_would_mean_off_or_unlimited_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        limits(**change)


def test_watchdog_shares_no_code_with_the_supervisor() -> None:
    tree = ast.parse(Path(watchdog_module.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in imported if name.startswith("tether")} == {"tether.contracts", "tether.errors"}
