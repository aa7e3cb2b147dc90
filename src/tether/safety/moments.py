"""Mean and deviation over a sliding window, exact: O(1) an update, and no error that could grow."""

from __future__ import annotations

import math
from collections import deque

_FRACTION_BITS = 64
MAGNITUDE_MAX = 1e6
"""Largest number a window takes; what is larger is for the caller to refuse."""


class SlidingMoments:
    """Mean and sample deviation of the newest `size` numbers.

    Floating-point sums that are added to and subtracted from drift, and one spike that has passed through leaves its
    rounding behind (Welford's update with removal does too). Here numbers are held as integers in units of 2⁻⁶⁴, which
    float64 of 2⁻¹¹ and more fit without any rounding, and both sums are exact whatever came before. A number costs two
    multiplications of about 90 bits.
    """

    def __init__(self, size: int) -> None:
        """size: 2 or more."""
        if size < 2:
            raise ValueError(f"a window of {size}, expected 2 or more")
        self.size = size
        self._values: deque[int] = deque()
        self._sum = 0
        self._squares = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """Take a number; the oldest leaves a full window. ValueError beyond ±MAGNITUDE_MAX and for NaN."""
        if not abs(value) <= MAGNITUDE_MAX:
            raise ValueError(f"{value}, expected within ±{MAGNITUDE_MAX:g}")
        scaled = round(math.ldexp(value, _FRACTION_BITS))
        if len(self._values) == self.size:
            oldest = self._values.popleft()
            self._sum -= oldest
            self._squares -= oldest * oldest
        self._values.append(scaled)
        self._sum += scaled
        self._squares += scaled * scaled

    @property
    def mean(self) -> float:
        """Mean, rounded once; NaN of nothing."""
        n = len(self._values)
        return self._sum / (n << _FRACTION_BITS) if n else math.nan

    @property
    def deviation(self) -> float:
        """Sample deviation (n - 1); NaN of fewer than two."""
        n = len(self._values)
        if n < 2:
            return math.nan
        # n·Σx² - (Σx)² is exact in integers, so it cannot cancel below zero.
        return math.sqrt((n * self._squares - self._sum * self._sum) / (n * (n - 1) << 2 * _FRACTION_BITS))

    def values(self) -> list[float]:
        """The window, oldest first."""
        return [math.ldexp(value, -_FRACTION_BITS) for value in self._values]
