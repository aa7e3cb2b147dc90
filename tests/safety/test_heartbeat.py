"""Heartbeats: a loop that stands still is dead whatever its thread does, within a deadline, at the cost of a look."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.safety.heartbeat import (
    AgentRule,
    Beat,
    Consequence,
    HeartbeatMonitor,
    HeartbeatRules,
    LoopRule,
    Pulse,
    worst,
)
from tether.safety.settings import load_safety

MS = 1_000_000
S = 1000 * MS
AGENTS = AgentRule(prefix="agent/", offline=Consequence.NAME, scan_s=5.0, offline_s=15.0, ttl_s=30.0)
RULES = HeartbeatRules(
    loops={
        "fusion": LoopRule(Consequence.HOLD, 300.0),
        "opd_bridge": LoopRule(Consequence.HOLD, 85.0),
        "recorder": LoopRule(Consequence.NAME, 2000.0),
        "driver": LoopRule(Consequence.STOP, 2000.0),
    },
    agents=AGENTS,
    close_beat_ms=40.0,
    close_below_ms=200.0,
    idle_beat_ms=100.0,
)


def beat(pid: int = 1, **counts: int) -> Beat:
    return Beat("composed", pid, tuple(counts), tuple(counts.values()))


def test_frozen_loop_in_a_living_process_is_offline_after_its_deadline_and_is_said_to_stand_still() -> None:
    monitor = HeartbeatMonitor(RULES)
    for k in range(5):
        monitor.hear(beat(fusion=k, opd_bridge=k), k * 50 * MS)
        assert monitor.offline(k * 50 * MS) == []
    for k in range(5, 8):
        monitor.hear(beat(fusion=k, opd_bridge=4), k * 50 * MS)
    (found,) = monitor.offline(350 * MS)
    assert (found.loop, found.consequence, found.beats) == ("opd_bridge", Consequence.HOLD, True)
    assert "stands still in composed, which beats: 150 ms" in str(found)


def test_process_that_is_gone_is_silent_and_the_loop_that_feeds_the_others_is_named_first() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(beat(opd_bridge=1, fusion=1), 0)
    assert monitor.offline(85 * MS) == []
    assert [each.loop for each in monitor.offline(85 * MS + 1)] == ["opd_bridge"]
    found = monitor.offline(1 * S)
    assert [each.loop for each in found] == ["fusion", "opd_bridge"]
    assert "fusion is silent, with all of composed" in str(found[0])


def test_loop_that_turns_again_is_online_again() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(beat(fusion=1), 0)
    assert monitor.offline(1 * S)
    monitor.hear(beat(fusion=1), 1 * S)
    assert monitor.offline(1 * S), "a beat with the same counter is no sign of life"
    monitor.hear(beat(fusion=2), 1 * S)
    assert not monitor.offline(1 * S)


def test_process_that_was_started_anew_counts_from_the_beginning_and_is_alive() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(beat(pid=1, fusion=1000), 0)
    monitor.hear(beat(pid=2, fusion=1), 500 * MS)
    assert monitor.offline(700 * MS) == []


def test_loop_is_watched_from_its_first_beat_on() -> None:
    monitor = HeartbeatMonitor(RULES)
    assert monitor.offline(100 * S) == []
    monitor.hear(beat(fusion=1), 100 * S)
    monitor.forget()
    assert monitor.offline(200 * S) == []


def test_agent_is_scanned_every_5_s_is_offline_after_15_s_and_forgotten_after_30_s() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(Beat("agents", 1, ("agent/fetch",), (1,)), 0)
    states = {t: [each.loop for each in monitor.offline(t * S)] for t in range(41)}
    assert [t for t, names in states.items() if names] == list(range(20, 35))
    assert monitor.forgotten() == ["agent/fetch"]
    monitor.hear(Beat("agents", 1, ("agent/fetch",), (2,)), 41 * S)
    assert monitor.offline(41 * S) == []


def test_agent_that_comes_back_is_online_at_once_not_at_the_next_scan() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(Beat("agents", 1, ("agent/fetch",), (1,)), 0)
    for t in range(21):
        offline = monitor.offline(t * S)
    assert offline
    monitor.hear(Beat("agents", 1, ("agent/fetch",), (2,)), 20 * S)
    assert monitor.offline(20 * S) == []


def test_gravest_consequence_wins_and_of_equals_the_cause() -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(beat(recorder=1, opd_bridge=1, fusion=1), 0)
    found = worst(monitor.offline(10 * S))
    assert found is not None and found.loop == "fusion"
    monitor.hear(beat(driver=1), 0)
    found = worst(monitor.offline(10 * S))
    assert found is not None and found.loop == "driver"
    assert worst([]) is None


def test_pulse_beats_from_the_turn_of_a_closely_watched_loop_and_the_rest_rides_along() -> None:
    pulse = Pulse(RULES)
    assert not pulse.turn("fusion", 0), "300 ms is no close deadline"
    assert pulse.turn("opd_bridge", 0)
    assert pulse.take() == (("fusion", "opd_bridge"), (1, 1))
    assert not pulse.turn("opd_bridge", 39 * MS)
    assert pulse.turn("opd_bridge", 40 * MS)
    assert pulse.take() == (("fusion", "opd_bridge"), (1, 3))
    assert pulse.take() == (("fusion", "opd_bridge"), (1, 3)), "somebody else's beat, with nothing new"
    assert pulse.turn("opd_bridge", 90 * MS), "it did not put off this one"


def test_turn_without_a_beat_of_its_own_is_not_told_later_as_if_it_had_happened_then() -> None:
    pulse, monitor = Pulse(RULES), HeartbeatMonitor(RULES)
    assert pulse.turn("opd_bridge", 0)
    monitor.hear(Beat("opd_bridge", 1, *pulse.take()), 0)
    assert not pulse.turn("opd_bridge", 30 * MS)
    monitor.hear(Beat("opd_bridge", 1, *pulse.take()), 80 * MS)  # the process's own beat, when nothing turns any more
    assert [each.loop for each in monitor.offline(90 * MS)] == ["opd_bridge"]


@given(st.lists(st.integers(30, 69), min_size=3, max_size=10), st.integers(0, 399), st.integers(0, 9))
def test_with_the_shipped_rules_a_loop_that_dies_is_found_out_within_80_ms_of_its_last_turn(
    gaps_ms: list[int], idle_phase_ms: int, tick_phase_ms: int
) -> None:
    """Whatever the jitter of its turns and the phase of its process's idle beats; and no sooner than it dies."""
    rules = load_safety(resource_path("config", "safety.yaml")).heartbeats
    pulse, monitor = Pulse(rules), HeartbeatMonitor(rules)
    turns_ms = set(np.cumsum(gaps_ms).tolist())
    last_ms = max(turns_ms)
    found_ms = None
    for now_ms in range(last_ms + 300):
        now_ns = now_ms * MS
        idle = now_ms % round(rules.idle_beat_ms) == idle_phase_ms
        turned = now_ms in turns_ms and pulse.turn("opd_bridge", now_ns)
        if turned or idle:
            monitor.hear(Beat("opd_bridge", 1, *pulse.take()), now_ns)
        if found_ms is None and now_ms % 10 == tick_phase_ms and monitor.offline(now_ns):
            found_ms = now_ms
    assert found_ms is not None and 70 < found_ms - last_ms <= 81


def test_frozen_20_hz_loop_is_offline_within_the_stop_budget_of_100_ms() -> None:
    pulse, monitor = Pulse(RULES), HeartbeatMonitor(RULES)
    for tick in range(100):
        now_ns = tick * 10 * MS
        frozen = tick > 60
        if tick % 5 == 0 and not frozen and pulse.turn("opd_bridge", now_ns):
            monitor.hear(Beat("composed", 1, *pulse.take()), now_ns)
        offline = monitor.offline(now_ns)
        assert bool(offline) == (tick > 68), tick


def test_strangers_are_counted_and_not_kept() -> None:
    monitor = HeartbeatMonitor(RULES)
    for k in range(1000):
        monitor.hear(Beat("x", 1, (f"stranger {k}", f"agent/{k}"), (1, 1)), 0)
    assert monitor.strangers == 1000 + 936
    assert len(monitor._seen) == 64


junk = st.one_of(st.none(), st.text(max_size=3), st.integers(), st.floats(), st.tuples(st.integers()), st.booleans())


@given(st.lists(st.tuples(junk, junk, st.one_of(junk, st.tuples(st.text(max_size=3))), junk), max_size=10))
def test_nothing_that_comes_in_escapes_the_monitor(rows: list[tuple[Any, ...]]) -> None:
    monitor = HeartbeatMonitor(RULES)
    monitor.hear(None, 0)  # type: ignore[arg-type]
    for row in rows:
        monitor.hear(Beat(*row), 0)
    assert monitor.offline(0) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"loops": {"opd_bridge": LoopRule(Consequence.HOLD, 79.0)}}, "opd_bridge: deadline_ms"),
        ({"loops": {"fusion": LoopRule(Consequence.HOLD, 300.0)}, "idle_beat_ms": 200.0}, "fusion: deadline_ms"),
        ({"loops": {"agent/x": LoopRule(Consequence.HOLD, 300.0)}}, "agent/x"),
    ],
)
def test_deadline_that_beats_cannot_meet_is_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        dataclasses.replace(RULES, **change)


@pytest.mark.parametrize(
    "change", [{"scan_s": 16.0}, {"offline_s": 31.0}, {"prefix": ""}]
)  # fmt: skip
def test_agents_that_would_be_forgotten_before_they_are_offline_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        dataclasses.replace(AGENTS, **change)
