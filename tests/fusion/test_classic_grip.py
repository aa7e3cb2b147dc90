"""What the fingers' position says."""

from __future__ import annotations

from tether.fusion.classic_config import load_classic_config
from tether.fusion.grip import Grip, GripSense
from tether.resources import resource_path

CONFIG = load_classic_config(resource_path("config", "classic.yaml")).grip
MS = 1_000_000


def _states(openings_mm: list[float], period_ms: int) -> list[Grip]:
    sense = GripSense(CONFIG)
    return [sense.take(i * period_ms * MS, mm * 1e-3) for i, mm in enumerate(openings_mm)]


def test_fingers_that_close_slowly_hold_nothing_until_they_stop() -> None:
    # 30 mm/s, slower than the gripper's limit: 44 mm down to 24 mm, then still.
    closing = [44.0 - 0.3 * i for i in range(67)]
    states = _states(closing + [24.0] * 30, 10)
    assert Grip.HOLDING not in states[:67]
    assert states[-1] is Grip.HOLDING


def test_twenty_readings_a_second_feel_the_same() -> None:
    states = _states([44.0, 44.0, 42.5, 41.0, 39.5, 38.0, 36.5, 35.0, 33.5, 32.0, 24.0, 24.2, 23.9, 24.1, 24.0], 50)
    assert Grip.HOLDING not in states[:11] and states[-1] is Grip.HOLDING


def test_fingers_that_met_hold_nothing_while_they_open_again() -> None:
    states = _states([30.0, 20.0, 10.0, 10.0, 16.5, 16.6, 16.7, 16.6, 16.7, 30.0, 44.0], 50)
    assert Grip.HOLDING not in states and states[-1] is Grip.OPEN


def test_opening_from_a_hold_lets_go() -> None:
    states = _states([24.0] * 8 + [25.0, 26.0, 28.0, 30.0], 50)
    assert states[7] is Grip.HOLDING and states[-1] is Grip.MOVING


def test_older_reading_changes_nothing() -> None:
    sense = GripSense(CONFIG)
    sense.take(100 * MS, 0.044)
    before = sense.dump()
    assert sense.take(50 * MS, 0.0) is Grip.OPEN
    assert sense.dump() == before
