"""What is kept, and what makes the box write."""

from __future__ import annotations

from itertools import pairwise

import pytest
from box_making import START_NS, TILT, event, executed, story, verdict
from hypothesis import given
from hypothesis import strategies as st

from tether import topics
from tether.blackbox.contents import TYPES
from tether.blackbox.ring import Kept, Ring, RingLimits
from tether.blackbox.trips import GATE_SILENT_NS, Trip, TripKind, TripWatch
from tether.codec import decode
from tether.contracts import TICK_NS, Mode, Verdict

S = 1_000_000_000


def filled(limits: RingLimits, rows: list[tuple[str, int, int]]) -> Ring:
    """rows: (topic, bytes, time in ns)."""
    ring = Ring(limits, pictures={"picture"}, latched={"latched"})
    for topic, size, at_ns in rows:
        ring.append(topic, bytes(size), START_NS + at_ns, at_ns)
    return ring


def test_messages_older_than_the_window_go() -> None:
    ring = filled(RingLimits(window_s=30), [("a", 1, i * S) for i in range(100)])
    assert [item.steady_ns // S for item in ring.since()] == list(range(69, 100))
    assert not ring.pushed_out


def test_the_newest_latched_message_stays_whatever_its_age() -> None:
    ring = filled(RingLimits(window_s=30), [("latched", 1, 0), ("latched", 2, S), ("a", 1, 500 * S)])
    assert [(item.topic, len(item.raw)) for item in ring.since()] == [("latched", 2), ("a", 1)]


def test_pictures_cannot_push_out_verdicts() -> None:
    limits = RingLimits(bytes_max=2**16, pictures_bytes_max=2**16, whole_s=0.0)
    rows = [(topic, size, i * S // 100) for i in range(2000) for topic, size in (("picture", 5000), ("verdict", 20))]
    ring = filled(limits, rows)
    kept = ring.since()
    assert sum(item.topic == "verdict" for item in kept) == 2000
    assert sum(len(item.raw) for item in kept if item.topic == "picture") <= 2**16
    assert ring.pushed_out["picture"] > 0 and ring.pushed_out["verdict"] == 0


def test_pictures_over_budget_get_sparser_and_not_shorter() -> None:
    limits = RingLimits(window_s=30, pictures_bytes_max=300 * 1000, whole_s=5)
    ring = filled(limits, [("picture", 1000, i * S // 30) for i in range(60 * 30)])
    times = [item.steady_ns / S for item in ring.since()]
    assert times[-1] - times[0] > 25, "the window is still covered"
    newest = [t for t in times if t > times[-1] - 4.9]
    assert max(b - a for a, b in pairwise(newest)) < 0.034, "the last seconds are whole"
    assert len(times) * 1000 <= 300 * 1000


def test_a_message_larger_than_its_budget_is_counted_and_left_out() -> None:
    ring = filled(RingLimits(bytes_max=2**16), [("a", 10, 0), ("a", 2**16 + 1, 1), ("a", 10, 2)])
    assert [len(item.raw) for item in ring.since()] == [10, 10]
    assert ring.pushed_out == {"a": 1}


def test_since_gives_only_what_came_after() -> None:
    ring = filled(RingLimits(), [("a", 1, 1), ("picture", 1, 2), ("a", 1, 3)])
    number = max(item.number for item in ring.since())
    ring.append("a", b"new", 1, 4)
    assert [item.raw for item in ring.since(number)] == [b"new"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "picture", "latched"]), st.integers(0, 90_000), st.integers(0, 10 * S)),
        max_size=60,
    )
)
def test_the_bounds_hold_whatever_comes(rows: list[tuple[str, int, int]]) -> None:
    limits = RingLimits(window_s=20, bytes_max=2**17, pictures_bytes_max=2**18)
    now_ns, timed = 0, []
    for topic, size, step in rows:
        now_ns += step
        timed.append((topic, size, now_ns))
    ring = filled(limits, timed)
    kept: list[Kept] = [item for item in ring.since() if item.topic != "latched"]
    assert ring.size_bytes == sum(len(item.raw) for item in kept) <= 2**17 + 2**18
    newest = max((at for topic, _, at in timed if topic != "latched"), default=0)
    assert all(newest - item.steady_ns <= 20 * S for item in kept)


# Trips


def watched(rows: list[tuple[str, bytes, int]], watch: TripWatch | None = None) -> list[Trip]:
    watch = TripWatch() if watch is None else watch
    found = (watch.look(topic, decode(raw, TYPES[topic]), at) for topic, raw, at in rows)
    return [trip for trip in found if trip is not None]


def test_a_run_without_trouble_trips_nothing() -> None:
    assert watched([row for row in story(60) if row[2] < 50 * TICK_NS]) == []


def test_a_latched_stop_trips_once_and_says_what_stopped_it() -> None:
    (trip,) = watched(list(story(60)))
    assert trip.kind is TripKind.LATCHED_STOP
    assert trip.stamp_ns == START_NS + 60 * TICK_NS
    assert "tick 60: tilt: tilted by 0.700 rad" in trip.reason


def test_a_second_stop_after_a_reset_trips_again() -> None:
    rows = [
        (mode, TILT) if mode is Mode.STOP else (mode, None) for mode in (Mode.STOP, Mode.STOP, Mode.INIT, Mode.STOP)
    ]
    made = [(topics.VERDICT.name, verdict(i, mode, *([v] if v else [])), i) for i, (mode, v) in enumerate(rows)]
    assert [trip.steady_ns for trip in watched(made)] == [0, 3]


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        ("reward", TripKind.REWARD_BREAKER),
        ("watchdog", TripKind.WATCHDOG),
        ("state_integrity", TripKind.INTEGRITY),
        ("model_signature", TripKind.SIGNATURE),
        ("internal", TripKind.GATE_FAULT),
    ],
)
def test_checks_that_are_trips_trip_when_they_begin(check: str, kind: TripKind) -> None:
    bad = Verdict(check, 0.3, "why")
    rows = [verdict(i, Mode.ACTIVE, *([bad] if i in (3, 4, 7) else [])) for i in range(9)]
    trips = watched([(topics.VERDICT.name, raw, i) for i, raw in enumerate(rows)])
    assert [(trip.kind, trip.steady_ns) for trip in trips] == [(kind, 3), (kind, 7)]


def test_checks_that_only_hold_do_not_trip() -> None:
    rows = [verdict(i, Mode.ARMED, Verdict("command_age", 0.0, "late")) for i in range(3)]
    assert watched([(topics.VERDICT.name, raw, i) for i, raw in enumerate(rows)]) == []


def test_the_robots_own_watchdog_trips_when_the_gate_cannot_say_it() -> None:
    rows = [(topics.VERDICT.name, verdict(0, Mode.ACTIVE), 0)]
    rows += [(topics.EXECUTED.name, executed(i, i >= 2), i) for i in range(5)]
    assert [(trip.kind, trip.steady_ns) for trip in watched(rows)] == [(TripKind.WATCHDOG, 2)]


def test_nothing_that_the_gate_says_before_it_is_armed_is_a_trip() -> None:
    bad = Verdict("watchdog", 0.0, "why")
    rows = [(topics.VERDICT.name, verdict(i, Mode.INIT, bad), i) for i in range(3)]
    rows += [(topics.EXECUTED.name, executed(i, i >= 2), i) for i in range(5)]
    assert watched(rows) == []


def test_lost_nodes_trip_and_other_events_do_not() -> None:
    rows = [(topics.EVENTS.name, event(kind, "text"), 1) for kind in ("stream_fault", "node_lost", "gate_mode")]
    assert [trip.kind for trip in watched(rows)] == [TripKind.NODE_LOST]


def test_a_gate_that_is_gone_is_noticed_by_its_silence_once() -> None:
    watch = TripWatch()
    assert watch.tick(10**12, 0) is None, "a gate that never spoke is not missed"
    watched([(topics.VERDICT.name, verdict(1, Mode.ACTIVE), 5)], watch)
    assert watch.tick(5 + GATE_SILENT_NS - 1, 0) is None
    trip = watch.tick(5 + GATE_SILENT_NS, 7)
    assert trip is not None and trip.kind is TripKind.GATE_SILENT
    assert watch.tick(5 + 3 * GATE_SILENT_NS, 8) is None
