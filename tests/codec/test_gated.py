"""Which joint command and which twist belong together, in whatever order they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.codec import sensors
from tether.codec.gated import GatedHalves
from tether.contracts import Command, Source
from tether.robot.roles import COMMAND_JOINTS


def halves(number: int, stamp_ns: int | None = None) -> tuple[Any, Any]:
    stamp = number * 10_000_000 if stamp_ns is None else stamp_ns
    values = np.full(len(COMMAND_JOINTS), float(number))
    command = Command(number, stamp, 0, Source.GATE, COMMAND_JOINTS, values, values, np.full(3, float(number)))
    return sensors.joint_command_message(command), sensors.twist_message(command)


def number_of(pair: tuple[Any, Any] | None) -> tuple[float, float] | None:
    return None if pair is None else (float(pair[0].position[0]), float(pair[1].twist.linear.x))


def test_a_half_is_kept_where_the_next_command_comes_before_its_other_half_is_read() -> None:
    kept = GatedHalves()
    for msg in (halves(1)[0], halves(2)[0]):
        kept.put_joints(msg)
    kept.put_twist(halves(1)[1])
    assert number_of(kept.take()) == (1.0, 1.0)
    for number in (2, 3):
        kept.put_twist(halves(number)[1])
    assert number_of(kept.take()) == (2.0, 2.0)
    kept.put_joints(halves(3)[0])
    assert number_of(kept.take()) == (3.0, 3.0)


def test_the_newest_pair_is_taken_once() -> None:
    kept = GatedHalves()
    assert kept.take() is None
    for number in (1, 2, 3):
        joints, twist = halves(number)
        kept.put_twist(twist)
        kept.put_joints(joints)
    assert kept.stamp_ns() == 30_000_000
    assert number_of(kept.take()) == (3.0, 3.0)
    assert kept.take() is None
    assert kept.stamp_ns() is None


def test_a_queue_of_the_one_half_is_read_before_that_of_the_other() -> None:
    kept = GatedHalves()
    for number in range(100):
        kept.put_joints(halves(number)[0])
    for number in range(100):
        kept.put_twist(halves(number)[1])
    assert number_of(kept.take()) == (99.0, 99.0)


def test_newest_is_what_came_last_where_the_clock_was_set_back() -> None:
    kept = GatedHalves()
    for number, stamp_ns in ((1, 3_600_000_000_000), (2, 10)):
        joints, twist = halves(number, stamp_ns)
        kept.put_joints(joints)
        kept.put_twist(twist)
    assert number_of(kept.take()) == (2.0, 2.0)


def test_halves_that_stay_alone_are_not_kept_for_ever() -> None:
    kept = GatedHalves()
    for number in range(1000):
        kept.put_joints(halves(number)[0])
    kept.put_twist(halves(0)[1])
    assert kept.take() is None
    kept.put_twist(halves(999)[1])
    assert number_of(kept.take()) == (999.0, 999.0)


def test_what_is_forgotten_makes_no_pair() -> None:
    kept = GatedHalves()
    joints, twist = halves(1)
    kept.put_joints(joints)
    kept.put_twist(twist)
    kept.put_joints(halves(2)[0])
    kept.clear()
    kept.put_twist(halves(2)[1])
    assert kept.take() is None
