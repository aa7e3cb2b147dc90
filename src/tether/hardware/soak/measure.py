"""What a soak counts: gaps in each sensor's stamps, and how memory grows, with how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_GAP_PERIODS = 1.5
_Z_95 = 1.959964
_WARM_UP_S = 120.0
_LEAST = 8
"""Fewer samples of memory say nothing about a slope."""


class StreamMeter:
    """Samples of one stream, and how many are missing between them by their stamps."""

    def __init__(self, period_s: float) -> None:
        self._period_ns = period_s * 1e9
        self._last_ns: int | None = None
        self._torn = False
        self.samples = 0
        self.missing = 0
        self.longest_s = 0.0

    def take(self, stamp_ns: int) -> None:
        """One more sample; a gap that reaches into a time left out is not counted."""
        last, self._last_ns = self._last_ns, stamp_ns
        torn, self._torn = self._torn, False
        if last is None or torn:
            return
        self.samples += 1
        gap = stamp_ns - last
        if gap > _GAP_PERIODS * self._period_ns:
            self.missing += round(gap / self._period_ns) - 1
            self.longest_s = max(self.longest_s, gap * 1e-9)

    def leave_out(self) -> None:
        """A fault is in place, or was just now: what is missing is its doing."""
        self._torn = True

    def silent_s(self, now_ns: int) -> float:
        """Time since the newest stamp; infinite before the first."""
        return math.inf if self._last_ns is None else (now_ns - self._last_ns) * 1e-9

    def drain(self) -> tuple[int, int, float]:
        """samples, missing, longest gap (s) since the last call."""
        result = (self.samples, self.missing, self.longest_s)
        self.samples = self.missing = 0
        self.longest_s = 0.0
        return result


@dataclass(frozen=True)
class Slope:
    """MiB an hour, with the bounds of its 95 % interval. n: samples it rests on."""

    mib_h: float
    low: float
    high: float
    n: int


def memory_slope(samples: Sequence[tuple[int, float, float]]) -> Slope | None:
    """Least squares over (run, seconds since that run began, MiB); None where there are too few samples.

    Each run of an interrupted soak has a level of its own, and its first two minutes are left out, in which libraries
    still load and caches fill. Samples resemble their neighbours, so the interval is that of as many independent ones
    as their lag-1 autocorrelation r leaves, n (1 - r) / (1 + r) (Santer et al., J. Geophys. Res. 105, 2000).
    """
    parts = []
    for run in sorted({sample[0] for sample in samples}):
        rows = np.array([(t, mib) for one, t, mib in samples if one == run and t >= _WARM_UP_S])
        if len(rows) > 1:
            parts.append(rows - rows.mean(axis=0))
    rows = np.concatenate(parts) if parts else np.zeros((0, 2))
    n, degrees = len(rows), len(rows) - len(parts) - 1
    if n < _LEAST or degrees < 1:
        return None
    t, mib = rows[:, 0] / 3600.0, rows[:, 1]
    spread = float(t @ t)
    slope = float(t @ mib) / spread
    rest = mib - slope * t
    variance = float(rest @ rest)
    r = float(rest[:-1] @ rest[1:]) / variance if variance > 0.0 else 0.0
    r = min(max(r, 0.0), 0.99)
    fewer = max(degrees * (1.0 - r) / (1.0 + r), 1.0)
    error = _Z_95 * math.sqrt(variance / fewer / spread) if variance > 0.0 else 0.0
    return Slope(slope, slope - error, slope + error, n)
