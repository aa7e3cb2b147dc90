"""The time-aligned buffer against a brute-force oracle that keeps everything and searches it all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether import config
from tether.align import (
    IMU,
    AsOf,
    BufferConfig,
    Duplicates,
    Inserted,
    Quality,
    StreamBuffer,
    by_field,
    linear,
    planar_pose,
    rotation,
)
from tether.contracts import ImuSample, SampleRef, Stream
from tether.errors import InvalidInputError
from tether.rotations import angle_between, rotvec_to_quat


def line(stamps: list[int], slope: float = 2.0, **settings: object) -> StreamBuffer[float]:
    """A buffer with value = slope * stamp at each stamp, arriving 5 ns later."""
    buffer: StreamBuffer[float] = StreamBuffer(BufferConfig(**settings), linear)  # type: ignore[arg-type]
    for stamp in stamps:
        buffer.insert(stamp, stamp + 5, slope * stamp)
    return buffer


def test_value_at_a_stamp_is_the_sample_itself() -> None:
    value = object()
    buffer: StreamBuffer[object] = StreamBuffer()
    buffer.insert(10, 15, value)
    view = buffer.as_of(10)
    assert view.value is value and view.quality is Quality.EXACT and view.staleness_ns == 0


def test_value_between_stamps_is_interpolated() -> None:
    view = line([10, 20]).as_of(13)
    assert view.value == pytest.approx(26.0)
    assert (view.quality, view.before_ns, view.after_ns, view.staleness_ns) == (
        Quality.INTERPOLATED,
        10,
        20,
        0,
    )


def test_value_after_the_newest_is_held_with_its_staleness_and_never_extrapolated() -> None:
    view = line([10, 20]).as_of(50)
    assert (view.value, view.quality, view.staleness_ns) == (40.0, Quality.HELD, 30)


def test_value_before_the_oldest_is_missing() -> None:
    view = line([10, 20]).as_of(9)
    assert (view.value, view.quality, view.staleness_ns) == (None, Quality.MISSING, None)


def test_empty_buffer_knows_nothing() -> None:
    buffer: StreamBuffer[float] = StreamBuffer()
    assert buffer.as_of(0).quality is Quality.MISSING and buffer.arrived_by(0) == ()


def test_drop_out_is_not_interpolated_over() -> None:
    view = line([0, 10, 1000], max_gap_ns=100).as_of(500)
    assert (view.value, view.quality, view.staleness_ns) == (20.0, Quality.GAP, 490)


def test_what_had_arrived_is_told_by_arrival_not_by_stamp() -> None:
    buffer: StreamBuffer[str] = StreamBuffer()
    buffer.insert(10, 130, "slow picture")
    buffer.insert(20, 25, "quick reading")
    assert [e.value for e in buffer.arrived_by(100, newest=5)] == ["quick reading"]
    assert [e.value for e in buffer.arrived_by(130, newest=5)] == ["slow picture", "quick reading"]
    assert buffer.arrived_by(24) == ()


def test_value_as_known_at_a_time_leaves_out_what_came_later() -> None:
    buffer = line([0, 10])
    buffer.insert(20, 1000, 99.0)
    assert buffer.as_of(15, known_by_ns=500).quality is Quality.HELD
    assert buffer.as_of(15, known_by_ns=1000).quality is Quality.INTERPOLATED
    assert buffer.as_of(15).quality is Quality.INTERPOLATED


def test_sample_out_of_order_lands_in_its_place() -> None:
    buffer = line([10, 30])
    assert buffer.insert(20, 40, 7.0) is Inserted.REORDERED
    assert [e.stamp_ns for e in buffer.between(0, 100)] == [10, 20, 30]
    assert buffer.as_of(20).value == 7.0


def test_first_of_two_equal_stamps_is_kept_by_default() -> None:
    buffer = line([10])
    assert buffer.insert(10, 16, 99.0) is Inserted.DUPLICATE
    assert buffer.as_of(10).value == 20.0 and buffer.stats().duplicates == 1


def test_last_of_two_equal_stamps_is_kept_where_so_configured() -> None:
    buffer = line([10], duplicates=Duplicates.KEEP_LAST)
    assert buffer.insert(10, 16, 99.0) is Inserted.REPLACED
    assert buffer.as_of(10).value == 99.0 and len(buffer) == 1


def test_full_buffer_gives_up_its_oldest_and_counts_it() -> None:
    buffer = line(list(range(0, 100, 10)), capacity=4)
    assert [e.stamp_ns for e in buffer.between(0, 100)] == [60, 70, 80, 90]
    assert buffer.stats().evicted == 6


def test_sample_older_than_a_full_buffer_is_refused_and_counted() -> None:
    buffer = line([10, 20, 30], capacity=3)
    assert buffer.insert(5, 40, 0.0) is Inserted.TOO_OLD
    assert buffer.stats().too_old == 1 and len(buffer) == 3


def test_clear_forgets_samples_and_keeps_counts() -> None:
    buffer = line([10, 20])
    buffer.clear()
    assert len(buffer) == 0 and buffer.as_of(20).quality is Quality.MISSING
    assert (buffer.stats().inserted, buffer.stats().cleared) == (2, 1)
    assert buffer.insert(1, 2, 3.0) is Inserted.APPENDED


def test_losses_are_counted_by_sequence_whatever_the_order() -> None:
    buffer: StreamBuffer[int] = StreamBuffer()
    for sequence in (3, 4, 9, 7, 5):
        buffer.insert(sequence * 10, 100, sequence, sequence)
    assert buffer.stats().lost == 2
    assert line([1, 2]).stats().lost is None


def test_longest_delay_and_newest_times_are_kept() -> None:
    buffer: StreamBuffer[int] = StreamBuffer()
    buffer.insert(10, 140, 0)
    buffer.insert(20, 25, 0)
    stats = buffer.stats()
    assert (stats.max_delay_ns, stats.newest_stamp_ns, stats.newest_arrival_ns) == (130, 20, 140)


@pytest.mark.parametrize("bad", [1.0, np.int64(3), "3", None, True])
def test_times_that_are_not_integers_are_refused_and_change_nothing(bad: object) -> None:
    buffer = line([10])
    with pytest.raises(InvalidInputError, match="stamp_ns"):
        buffer.insert(bad, 20, 0.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="arrival_ns"):
        buffer.insert(20, bad, 0.0)  # type: ignore[arg-type]
    assert len(buffer) == 1 and buffer.stats().inserted == 1


def test_stamps_of_this_century_keep_their_nanoseconds() -> None:
    base = 1_764_613_538_000_000_001
    buffer = line([base, base + 4], slope=1.0)
    assert buffer.as_of(base + 1).quality is Quality.INTERPOLATED
    assert buffer.as_of(base + 4).before_ns == base + 4


@pytest.mark.parametrize(("name", "value"), [("capacity", 0), ("max_gap_ns", 0)])
def test_no_bound_can_be_switched_off_by_zero(name: str, value: int) -> None:
    with pytest.raises(InvalidInputError, match=name):
        config.parse({name: value}, BufferConfig, "test")


def test_orientation_is_interpolated_at_constant_speed_the_short_way() -> None:
    buffer: StreamBuffer[object] = StreamBuffer(interpolate=rotation)
    start, end = rotvec_to_quat([0.0, 0.0, 0.4]), -rotvec_to_quat([0.0, 0.0, 1.2])
    buffer.insert(0, 0, start)
    buffer.insert(100, 100, end)
    for t in (25, 50, 75):
        expected = rotvec_to_quat([0.0, 0.0, 0.4 + 0.8 * t / 100])
        assert float(angle_between(buffer.as_of(t).value, expected)) < 1e-9


def test_record_is_interpolated_field_by_field_and_the_rest_held() -> None:
    @dataclass(frozen=True)
    class State:
        position: float
        mode: str
        orientation: object = None

    between = by_field(State, {"position": linear, "orientation": rotation})
    assert between(State(1.0, "a"), State(3.0, "b"), 0.25) == State(1.5, "a")
    with pytest.raises(ValueError, match="speed"):
        by_field(State, {"speed": linear})


def test_yaw_is_interpolated_the_short_way_across_pi() -> None:
    made = planar_pose(np.array([0.0, 1.0, 3.0]), np.array([2.0, 1.0, -3.0]), 0.5)
    np.testing.assert_allclose(made, [1.0, 1.0, np.pi], atol=1e-12)


def imu(stamp: int, rate: float, orientation: object = None) -> ImuSample:
    ref = SampleRef(Stream.IMU, stamp, stamp)
    return ImuSample(ref, np.full(3, rate), np.full(3, -rate), orientation)  # type: ignore[arg-type]


def test_imu_samples_are_interpolated_whole() -> None:
    buffer: StreamBuffer[ImuSample] = StreamBuffer(interpolate=IMU)
    buffer.insert(0, 3, imu(0, 1.0, rotvec_to_quat([0.2, 0.0, 0.0])))
    buffer.insert(10, 13, imu(10, 2.0, rotvec_to_quat([0.4, 0.0, 0.0])))
    found = buffer.as_of(5).value
    assert found is not None and found.orientation_xyzw is not None
    np.testing.assert_allclose(found.angular_velocity_rad_s, 1.5)
    np.testing.assert_allclose(found.linear_acceleration_m_s2, -1.5)
    assert float(angle_between(found.orientation_xyzw, rotvec_to_quat([0.3, 0.0, 0.0]))) < 1e-9


def test_imu_sample_without_orientation_gives_none_between() -> None:
    assert IMU(imu(0, 1.0, rotvec_to_quat([0.2, 0.0, 0.0])), imu(10, 2.0), 0.5).orientation_xyzw is None


def test_value_of_a_stream_that_is_not_interpolated_grows_stale_until_the_next() -> None:
    buffer: StreamBuffer[str] = StreamBuffer()
    buffer.insert(10, 10, "a")
    buffer.insert(20, 20, "b")
    view = buffer.as_of(17)
    assert (view.value, view.quality, view.staleness_ns) == ("a", Quality.HELD, 7)


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0.0, 1.0))
def test_linear_meets_its_ends_and_stays_between_them(a: float, b: float, share: float) -> None:
    assert linear(a, b, 0.0) == a and linear(a, b, 1.0) == b
    slack = 1e-9 * max(abs(a), abs(b), 1.0)
    assert min(a, b) - slack <= linear(a, b, share) <= max(a, b) + slack


# -- The oracle
# ------------------------------------------------------------------------------------------------------

Row = tuple[int, int, int]  # stamp, arrival, value
rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(-9, 9)), max_size=40)


class Oracle:
    """All the semantics, none of the cleverness."""

    def __init__(self, settings: BufferConfig) -> None:
        self.settings = settings
        self.rows: list[Row] = []

    def insert(self, stamp: int, arrival: int, value: int) -> Inserted:
        s = self.settings
        if stamp in [r[0] for r in self.rows]:
            if s.duplicates is Duplicates.KEEP_FIRST:
                return Inserted.DUPLICATE
            self.rows = [r for r in self.rows if r[0] != stamp] + [(stamp, arrival, value)]
            return Inserted.REPLACED
        full = len(self.rows) == s.capacity
        if full and stamp < min(self.rows)[0]:
            return Inserted.TOO_OLD
        newest = max((r[0] for r in self.rows), default=-1)
        if full:
            self.rows.remove(min(self.rows))
        self.rows.append((stamp, arrival, value))
        return Inserted.APPENDED if stamp > newest else Inserted.REORDERED

    def as_of(self, t: int, known_by: int | None) -> tuple[float | None, Quality, int | None]:
        seen = [r for r in self.rows if known_by is None or r[1] <= known_by]
        before = max((r for r in seen if r[0] <= t), default=None)
        after = min((r for r in seen if r[0] > t), default=None)
        if before is None:
            return None, Quality.MISSING, None
        if before[0] == t:
            return before[2], Quality.EXACT, 0
        if after is None:
            return before[2], Quality.HELD, t - before[0]
        if after[0] - before[0] > self.settings.max_gap_ns:
            return before[2], Quality.GAP, t - before[0]
        share = (t - before[0]) / (after[0] - before[0])
        return before[2] * (1 - share) + after[2] * share, Quality.INTERPOLATED, 0

    def arrived_by(self, t: int, newest: int) -> list[Row]:
        return sorted(r for r in self.rows if r[1] <= t)[-newest:]


@settings(deadline=None)
@given(rows, st.integers(2, 12), st.integers(1, 15), st.sampled_from(Duplicates))
def test_buffer_answers_every_question_as_the_oracle_does(
    given_rows: list[Row], capacity: int, max_gap: int, duplicates: Duplicates
) -> None:
    settings = BufferConfig(capacity, max_gap, duplicates)
    buffer, oracle = StreamBuffer[float](settings, linear), Oracle(settings)
    for stamp, arrival, value in given_rows:
        assert buffer.insert(stamp, arrival, value) is oracle.insert(stamp, arrival, value)
    assert len(buffer) == len(oracle.rows)
    for t in range(-1, 62, 3):
        for known_by in (None, 0, 20, 45):
            view: AsOf[float] = buffer.as_of(t, known_by)
            assert (view.value, view.quality, view.staleness_ns) == oracle.as_of(t, known_by)
        for newest in (1, 3):
            found = [(e.stamp_ns, e.arrival_ns, e.value) for e in buffer.arrived_by(t, newest)]
            assert found == oracle.arrived_by(t, newest)


@settings(deadline=None)
@given(rows)
def test_counts_add_up(given_rows: list[Row]) -> None:
    buffer: StreamBuffer[float] = StreamBuffer(BufferConfig(capacity=5))
    for row in given_rows:
        buffer.insert(*row)
    stats = buffer.stats()
    assert stats.inserted + stats.duplicates + stats.too_old == len(given_rows)
    assert stats.held == len(buffer) == stats.inserted - stats.evicted


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers()), unique_by=lambda r: r[0]))
def test_order_of_arrival_changes_no_answer_while_nothing_is_given_up(given_rows: list[Row]) -> None:
    def answers(order: list[Row]) -> list[object]:
        buffer: StreamBuffer[int] = StreamBuffer(BufferConfig(capacity=100))
        for row in order:
            buffer.insert(*row)
        return [(buffer.as_of(t, t).value, [e.value for e in buffer.arrived_by(t, 4)]) for t in range(61)]

    assert answers(given_rows) == answers(sorted(given_rows)) == answers(given_rows[::-1])
