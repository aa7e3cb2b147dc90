"""The last IMU readings in order of their stamps, as the (6, n) array that encoders and policies take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tether.contracts import F64

WINDOW = 100
"""Readings in a full window."""


class ImuWindow:
    """Newest `capacity` readings sorted by stamp. Appending is O(1) amortised; a late reading shifts what is
    newer.

    Rows lie in a buffer of twice the capacity and are moved to its front when the end is reached, so the
    window is always one contiguous slice.
    """

    def __init__(self, capacity: int = WINDOW) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}, expected at least 1")
        self._capacity = capacity
        self._rows = np.zeros((2 * capacity, 6))
        self._stamps = np.zeros(2 * capacity, dtype=np.int64)
        self._begin = 0
        self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def clear(self) -> None:
        """Forget all readings."""
        self._begin = self._end = 0

    def insert(self, stamp_ns: int, gyro_rad_s: Sequence[float], accel_m_s2: Sequence[float]) -> bool:
        """Put a reading where its stamp belongs; False where it is older than a full window."""
        if self._end == len(self._stamps):
            self._move_to_front()
        stamps = self._stamps[self._begin : self._end]
        at = self._end
        if len(stamps) and stamp_ns < stamps[-1]:
            at = self._begin + bisect_right(stamps, stamp_ns)
            if at == self._begin and len(self) == self._capacity:
                return False
            self._rows[at + 1 : self._end + 1] = self._rows[at : self._end].copy()
            self._stamps[at + 1 : self._end + 1] = self._stamps[at : self._end].copy()
        self._rows[at, :3] = gyro_rad_s
        self._rows[at, 3:] = accel_m_s2
        self._stamps[at] = stamp_ns
        self._end += 1
        if len(self) > self._capacity:
            self._begin += 1
        return True

    def values(self) -> F64:
        """(6, n) copy, newest last; rows gyro x y z (rad/s), accel x y z (m/s²)."""
        return np.ascontiguousarray(self._rows[self._begin : self._end].T)

    def stamps_ns(self) -> NDArray[np.int64]:
        """(n,) copy of the stamps, rising."""
        return np.array(self._stamps[self._begin : self._end])

    def _move_to_front(self) -> None:
        n = len(self)
        self._rows[:n] = self._rows[self._begin : self._end]
        self._stamps[:n] = self._stamps[self._begin : self._end]
        self._begin, self._end = 0, n
