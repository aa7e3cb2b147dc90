"""When samples of a FIFO without time stamps were taken: by counting them against the moments at which it was read."""

from __future__ import annotations

_RATE_ERROR_MAX = 0.05
"""The chips' oscillators are good for ± 1 % over temperature; more is somebody else's rate."""
_GAIN = 0.02


class CountedClock:
    """Stamps evenly spaced samples. At a read, the newest sample is at most one period old, and not of the future.

    Each read thus bounds the phase from both sides; within the bounds the count alone decides, so that the jitter of
    the reads does not enter the stamps. What the bounds correct also corrects the period.
    """

    def __init__(self, period_ns: int, delay_ns: int = 0) -> None:
        """period_ns: nominal. delay_ns: of the sensor's filter, which is taken off every stamp."""
        self._nominal_ns = float(period_ns)
        self._delay_ns = delay_ns
        self.period_ns = float(period_ns)
        self.restart()

    def restart(self) -> None:
        """Samples were lost: count anew. What was learnt of the period stays."""
        self._newest_ns: float | None = None
        self._last_stamp_ns = 0

    def stamps(self, count: int, read_ns: int) -> list[int]:
        """Acquisition times of `count` samples that were waiting at `read_ns`, oldest first, strictly rising."""
        if count == 0:
            return []
        if self._newest_ns is None:
            newest = read_ns - 0.5 * self.period_ns
            begin = newest - count * self.period_ns
        else:
            begin = self._newest_ns
            predicted = begin + count * self.period_ns
            newest = min(max(predicted, read_ns - self.period_ns), float(read_ns))
            low, high = ((1.0 + sign * _RATE_ERROR_MAX) * self._nominal_ns for sign in (-1.0, 1.0))
            self.period_ns = min(max(self.period_ns + _GAIN * (newest - predicted) / count, low), high)
        self._newest_ns = newest
        step = (newest - begin) / count
        stamps = []
        for i in range(1, count + 1):
            self._last_stamp_ns = max(round(begin + i * step) - self._delay_ns, self._last_stamp_ns + 1)
            stamps.append(self._last_stamp_ns)
        return stamps
