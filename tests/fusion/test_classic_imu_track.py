"""Readings of the IMU between two moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.contracts import ImuSample, SampleRef, Stream
from tether.fusion.imu_track import ImuTrack

MS = 1_000_000


def _sample(stamp_ns: int, fx: float = 0.0) -> ImuSample:
    return ImuSample(SampleRef(Stream.IMU, stamp_ns, 0), np.zeros(3), np.array([fx, 0.0, 9.81]))


def _track(stamps_ms: list[int], slope: float = 0.0) -> ImuTrack:
    track = ImuTrack(max_gap_ns=20 * MS)
    for t in stamps_ms:
        track.add(_sample(t * MS, slope * t))
    return track


@given(st.lists(st.integers(0, 200), max_size=40), st.integers(0, 200), st.integers(0, 200))
def test_pieces_add_up_to_the_time_asked_for(stamps: list[int], a: int, b: int) -> None:
    start, end = sorted((a, b))
    pieces = _track(stamps).pieces(start * MS, end * MS)
    assert sum(p.dt_s for p in pieces) == pytest.approx((end - start) * 1e-3)


def test_input_between_readings_is_on_the_line_through_them() -> None:
    pieces = _track([0, 5, 10], slope=1.0).pieces(2 * MS, 9 * MS)
    assert [p.fx for p in pieces] == pytest.approx([3.5, 7.0])


def test_order_of_arrival_and_repeats_change_nothing() -> None:
    assert _track([0, 10, 5, 5, 0]).dump() == _track([0, 5, 10]).dump()


def test_time_without_readings_is_not_covered() -> None:
    pieces = _track([0, 5, 80, 85]).pieces(0, 85 * MS)
    assert [p.covered for p in pieces] == [True, False, True]
    bare = _track([0]).pieces(30 * MS, 60 * MS)
    assert [p.covered for p in bare] == [False]


def test_mean_of_the_newest_readings_is_none_when_they_are_old() -> None:
    track = _track([0, 5, 10], slope=1.0)
    newest = track.newest_mean(12 * MS, 7 * MS)
    assert newest is not None and newest.fx == pytest.approx(7.5)
    assert track.newest_mean(40 * MS, 7 * MS) is None
