"""Recordings in lockstep begin at the world's first time, and time never goes back in them."""

from __future__ import annotations

from typing import Any

import pytest

from tether.bags import open_bag
from tether.bags.world_times import WorldTimes


def test_messages_before_the_first_clock_get_the_worlds_first_time() -> None:
    written: list[tuple[str, bytes, int]] = []
    times = WorldTimes(lambda *row: written.append(row))
    times.put("/events", b"early")
    assert not written
    times.tell_first(1_000)
    times.put("/episode/start", b"start")
    times.tell(1_000)
    times.put("/clock", b"1")
    times.tell(1_010)
    times.tell_first(1_000)  # a plan that came after the clock it belongs to
    times.put("/tick_plan", b"plan")
    assert written == [
        ("/events", b"early", 1_000),
        ("/episode/start", b"start", 1_000),
        ("/clock", b"1", 1_000),
        ("/tick_plan", b"plan", 1_010),
    ]


def test_world_that_never_tells_its_time_costs_no_message_and_no_more_memory_than_said() -> None:
    written: list[tuple[str, bytes, int]] = []
    times = WorldTimes(lambda *row: written.append(row), system_ns=lambda: 77, held_max=3)
    for number in range(5):
        times.put("/events", bytes([number]))
    assert len(written) == 4
    times.end()
    assert written == [("/events", bytes([number]), 77) for number in range(5)]


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_recorded_run_in_lockstep_never_goes_back_in_time_nor_stands_at_0(recorded_run: Any) -> None:
    with open_bag(recorded_run.bag) as bag:
        times_ns = [message.log_time_ns for message in bag.messages(check=False)]
        assert times_ns[0] == 1_000_000_000, "the world's first time"
        assert times_ns == sorted(times_ns)
