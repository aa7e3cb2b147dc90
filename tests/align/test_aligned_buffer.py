"""Several streams together: values, missing ones, staleness and skew."""

from __future__ import annotations

import pytest

from tether.align import AlignedBuffer, BufferConfig, Inserted, Quality, StreamSpec, linear
from tether.errors import InvalidInputError

MS = 1_000_000


def robot() -> AlignedBuffer:
    """100 ms of an IMU at 100 Hz (3 ms late) and a camera at 33 Hz (120 ms late), in stamp order."""
    buffer = AlignedBuffer({"imu": StreamSpec(interpolate=linear), "camera": StreamSpec(BufferConfig(capacity=8))})
    for i in range(11):
        buffer.insert("imu", i * 10 * MS, i * 10 * MS + 3 * MS, float(i), i)
    for i in range(4):
        buffer.insert("camera", i * 30 * MS, i * 30 * MS + 120 * MS, f"picture {i}", i)
    return buffer


def test_everything_as_it_was_at_a_time() -> None:
    view = robot().as_of(65 * MS)
    assert view.streams["imu"].value == pytest.approx(6.5)
    assert view.streams["camera"].value == "picture 2"
    assert view.missing == () and view.staleness_ns == {"imu": 0, "camera": 5 * MS}
    assert view.skew_ns == 5 * MS


def test_staleness_and_skew_beyond_the_newest_samples() -> None:
    view = robot().as_of(130 * MS)
    assert view.staleness_ns == {"imu": 30 * MS, "camera": 40 * MS}
    assert view.skew_ns == 10 * MS


def test_everything_as_it_was_known_at_a_time() -> None:
    view = robot().as_of(100 * MS, known_by_ns=100 * MS)
    assert view.streams["imu"].value == 9.0 and view.streams["imu"].quality is Quality.HELD
    assert view.missing == ("camera",)
    assert view.staleness_ns == {"imu": 10 * MS}


def test_what_had_arrived_by_a_time() -> None:
    view = robot().arrived_by(150 * MS, newest={"imu": 3})
    assert [e.value for e in view.streams["imu"]] == [8.0, 9.0, 10.0]
    assert [e.value for e in view.streams["camera"]] == ["picture 1"]
    assert view.staleness_ns == {"imu": 50 * MS, "camera": 120 * MS}
    assert view.skew_ns == 70 * MS and view.missing == ()


def test_before_anything_arrived_all_streams_are_missing() -> None:
    view = robot().arrived_by(0)
    assert view.missing == ("imu", "camera") and view.skew_ns is None and view.staleness_ns == {}


def test_numbers_of_each_stream_come_out_by_name() -> None:
    buffer = robot()
    assert buffer.insert("imu", 0, 3 * MS, 0.0, 0) is Inserted.DUPLICATE
    buffer.insert("camera", 300 * MS, 420 * MS, "picture 10", 10)
    stats = buffer.stats()
    assert stats["imu"].duplicates == 1 and stats["imu"].lost == 0
    assert stats["camera"].lost == 6 and stats["camera"].max_delay_ns == 120 * MS


def test_clear_empties_every_stream() -> None:
    buffer = robot()
    buffer.clear()
    assert buffer.as_of(50 * MS).missing == ("imu", "camera")


@pytest.mark.parametrize("call", [lambda b: b.insert("lidar", 0, 0, 0), lambda b: b.arrived_by(0, {"lidar": 2})])
def test_unknown_stream_is_refused_with_the_known_ones(call: object) -> None:
    with pytest.raises(InvalidInputError, match=r"lidar.*imu, camera"):
        call(robot())  # type: ignore[operator]


def test_buffer_of_no_streams_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="streams"):
        AlignedBuffer({})
