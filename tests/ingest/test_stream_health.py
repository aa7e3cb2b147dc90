"""Health numbers: rate on steady time, age, skew, jitter and drops by reason."""

from __future__ import annotations

import math

import pytest

from tether.ingest.health import StreamHealth
from tether.ingest.rejection import Reason

MS = 1_000_000
S = 1_000_000_000


def test_rate_counts_accepted_samples_per_second_of_steady_time() -> None:
    health = StreamHealth("imu", 7 * S)
    for i in range(400):
        health.note(i * 5 * MS, i * 5 * MS + 3 * MS, 7 * S + i * 5 * MS, None)
    report = health.report(2 * S, 9 * S)
    assert report.rate_hz == pytest.approx(200.0)
    assert (report.received, report.accepted) == (400, 400)


def test_rate_is_per_period_and_counts_are_since_the_start() -> None:
    health = StreamHealth("imu", 0)
    health.note(0, 0, 0, None)
    health.report(0, S)
    report = health.report(0, 2 * S)
    assert report.rate_hz == 0.0 and report.received == 1


def test_age_skew_and_jitter_come_from_the_graphs_clock() -> None:
    health = StreamHealth("camera", 0)
    for i in range(100):
        delay = 120 * MS if i % 10 else 150 * MS
        health.note(i * 33 * MS, i * 33 * MS + delay, i, None)
    report = health.report(99 * 33 * MS + 200 * MS, S)
    assert report.age_ms == pytest.approx(200.0)
    assert report.skew_ms == pytest.approx(120.0)
    assert report.jitter_ms == pytest.approx(30.0)


def test_drops_are_counted_by_reason_and_do_not_make_the_stream_look_fresh() -> None:
    health = StreamHealth("imu", 0)
    health.note(10, 20, 20, None)
    health.note(5 * S, 30, 30, Reason.FUTURE_STAMP)
    health.note(11, 40, 40, Reason.NOT_FINITE)
    health.note(12, 50, 50, Reason.NOT_FINITE)
    report = health.report(MS, MS)
    assert report.drops == {"future_stamp": 1, "not_finite": 2}
    assert report.received == 4 and report.accepted == 1
    assert report.age_ms == pytest.approx(1.0, rel=1e-4)


def test_unknown_numbers_are_nan_not_zero() -> None:
    report = StreamHealth("imu", 0).report(S, S)
    assert math.isnan(report.age_ms) and math.isnan(report.skew_ms) and math.isnan(report.jitter_ms)
    assert report.silence_s is None and report.rate_hz == 0.0


def test_silence_runs_on_steady_time_while_the_graphs_clock_stands_still() -> None:
    health = StreamHealth("imu", 0)
    health.note(10, 20, S, None)
    assert health.silence_ns(3 * S) == 2 * S
    assert health.report(20, 3 * S).silence_s == pytest.approx(2.0)


def test_after_a_clock_jump_age_is_that_of_the_new_samples() -> None:
    health = StreamHealth("imu", 0)
    health.note(100 * S, 100 * S, 0, None)
    health.clear_stamps()
    health.note(S, S + 2 * MS, 1, None)
    assert health.report(S + 5 * MS, S).age_ms == pytest.approx(5.0)
