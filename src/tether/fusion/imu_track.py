"""The IMU's readings over the last moments, cut into pieces of constant input for an integrator."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from tether.contracts import ImuSample


class Reading(NamedTuple):
    """Gyro (rad/s) and horizontal specific force (m/s²) in the IMU's axes; sorts by stamp."""

    stamp_ns: int
    wx: float
    wy: float
    wz: float
    fx: float
    fy: float


class Piece(NamedTuple):
    """A stretch of time with one input. covered: False where no reading is near; the input is then zero."""

    dt_s: float
    wx: float
    wy: float
    wz: float
    fx: float
    fy: float
    covered: bool


class ImuTrack:
    """Readings in order of their stamps, however they came. Between readings the input is linear in time."""

    def __init__(self, max_gap_ns: int) -> None:
        self._max_gap_ns = max_gap_ns
        self._readings: list[Reading] = []

    def clear(self) -> None:
        """Forget every reading."""
        self._readings.clear()

    def add(self, sample: ImuSample) -> None:
        """Take a reading; one with a stamp that is there already is dropped."""
        w, f = sample.angular_velocity_rad_s, sample.linear_acceleration_m_s2
        stamp_ns = sample.ref.stamp_ns
        reading = Reading(stamp_ns, float(w[0]), float(w[1]), float(w[2]), float(f[0]), float(f[1]))
        at = bisect_left(self._readings, (stamp_ns,))
        if at < len(self._readings) and self._readings[at].stamp_ns == stamp_ns:
            return
        insort(self._readings, reading)

    def forget_before(self, stamp_ns: int) -> None:
        """Drop what no piece from `stamp_ns` on can need."""
        del self._readings[: bisect_left(self._readings, (stamp_ns - self._max_gap_ns,))]

    def pieces(self, start_ns: int, end_ns: int) -> list[Piece]:
        """The pieces from start to end, in order; their lengths add up to the whole."""
        first = bisect_right(self._readings, (start_ns, float("inf")))
        last = bisect_left(self._readings, (end_ns,))
        between = self._readings[first:last]
        knots = [start_ns, *(r.stamp_ns for r in between), end_ns]
        values = [self._at(start_ns), *between, self._at(end_ns)]
        pieces = []
        for t0, t1, a, b in zip(knots, knots[1:], values, values[1:], strict=False):
            dt_s = (t1 - t0) * 1e-9
            if dt_s <= 0.0:
                continue
            if a is None or b is None or t1 - t0 > self._max_gap_ns:
                pieces.append(Piece(dt_s, 0.0, 0.0, 0.0, 0.0, 0.0, False))
            else:
                wx, wy, wz = 0.5 * (a.wx + b.wx), 0.5 * (a.wy + b.wy), 0.5 * (a.wz + b.wz)
                pieces.append(Piece(dt_s, wx, wy, wz, 0.5 * (a.fx + b.fx), 0.5 * (a.fy + b.fy), True))
        return pieces

    def newest_mean(self, end_ns: int, span_ns: int) -> Piece | None:
        """Mean input of the readings of the last `span_ns` before `end_ns`, or of the newest one; None without any
        that is near enough."""
        last = bisect_right(self._readings, (end_ns, float("inf")))
        if last == 0 or end_ns - self._readings[last - 1].stamp_ns > self._max_gap_ns:
            return None
        newest = self._readings[last - 1].stamp_ns
        first = bisect_right(self._readings, (newest - span_ns, float("inf")))
        chosen = self._readings[first:last]
        n = len(chosen)
        mean = [sum(r[i] for r in chosen) / n for i in range(1, 6)]
        return Piece(span_ns * 1e-9, mean[0], mean[1], mean[2], mean[3], mean[4], True)

    def dump(self) -> bytes:
        """Every reading as bytes, for hashes."""
        return repr(self._readings).encode()

    def _at(self, t_ns: int) -> Reading | None:
        """Input at a time: between two readings on the line through them, beyond the newest the newest's."""
        after = bisect_left(self._readings, (t_ns,))
        right = self._readings[after] if after < len(self._readings) else None
        if right is not None and right.stamp_ns == t_ns:
            return right
        left = self._readings[after - 1] if after > 0 else None
        if left is not None and right is not None and right.stamp_ns - left.stamp_ns <= self._max_gap_ns:
            share = (t_ns - left.stamp_ns) / (right.stamp_ns - left.stamp_ns)
            mixed = [a + share * (b - a) for a, b in zip(left[1:], right[1:], strict=True)]
            return Reading(t_ns, mixed[0], mixed[1], mixed[2], mixed[3], mixed[4])
        if right is not None and right.stamp_ns - t_ns <= self._max_gap_ns:
            return right
        if left is not None and t_ns - left.stamp_ns <= self._max_gap_ns:
            return left
        return None
