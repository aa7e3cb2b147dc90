"""Health of a sensor stream as numbers: the content of tether_msgs/ModalityStatus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tether.ingest.rejection import Reason

_MS = 1e-6
_RING = 1024


@dataclass(frozen=True)
class Health:
    """One report over the time since the report before.

    rate_hz: accepted samples per second of steady time. age_ms: now minus the newest accepted stamp. skew_ms,
    jitter_ms: median of arrival minus stamp, and its 99th percentile minus the median, over the newest 1024
    samples of the period. Those three are NaN while there is nothing to tell them from. silence_s: steady
    time since the last message of any kind, None before the first. received, accepted, drops: counts since
    the stream began; what was `missed` was not received.
    """

    modality: str
    rate_hz: float
    age_ms: float
    skew_ms: float
    jitter_ms: float
    silence_s: float | None
    received: int
    accepted: int
    drops: Mapping[str, int]


class StreamHealth:
    """Counts one stream. `note` is O(1); `report` sorts at most 1024 numbers and starts a new period.

    Rates and silence run on the steady clock, which no step of the wall clock and no stopped /clock can
    touch; age and skew compare stamps with the clock of the graph.
    """

    def __init__(self, modality: str, steady_ns: int) -> None:
        self._modality = modality
        self._period_start_ns = steady_ns
        self._last_message_ns: int | None = None
        self._newest_stamp_ns: int | None = None
        self._delays = np.zeros(_RING)
        self._in_period = 0
        self._received = 0
        self._accepted = 0
        self._drops: Counter[str] = Counter()

    def note(self, stamp_ns: int, now_ns: int, steady_ns: int, rejected: Reason | None) -> None:
        """Count one message; now_ns is of the graph's clock. rejected: why, None where accepted."""
        self._received += 1
        self._last_message_ns = steady_ns
        if rejected is not None:
            self._drops[rejected.value] += 1
            return
        self._accepted += 1
        self._delays[self._in_period % _RING] = now_ns - stamp_ns
        self._in_period += 1
        if self._newest_stamp_ns is None or stamp_ns > self._newest_stamp_ns:
            self._newest_stamp_ns = stamp_ns

    def missed(self, samples: int) -> None:
        """Count messages that were published and never came: a newer one took their place, or they were lost."""
        self._drops[Reason.MISSED.value] += samples

    def clear_stamps(self) -> None:
        """Forget the newest stamp and the delays, after time went back; counts stay."""
        self._newest_stamp_ns = None
        self._in_period = 0

    def silence_ns(self, steady_ns: int) -> int | None:
        """Steady time since the last message, accepted or not; None before the first."""
        return None if self._last_message_ns is None else steady_ns - self._last_message_ns

    def report(self, now_ns: int, steady_ns: int) -> Health:
        """Numbers of the period that ends now; the next one begins."""
        elapsed_s = (steady_ns - self._period_start_ns) * 1e-9
        delays = self._delays[: min(self._in_period, _RING)] * _MS
        skew, late = np.percentile(delays, (50, 99)) if delays.size else (np.nan, np.nan)
        silence = self.silence_ns(steady_ns)
        health = Health(
            modality=self._modality,
            rate_hz=self._in_period / elapsed_s if elapsed_s > 0 else 0.0,
            age_ms=float("nan") if self._newest_stamp_ns is None else (now_ns - self._newest_stamp_ns) * _MS,
            skew_ms=float(skew),
            jitter_ms=float(late - skew),
            silence_s=None if silence is None else silence * 1e-9,
            received=self._received,
            accepted=self._accepted,
            drops=dict(sorted(self._drops.items())),
        )
        self._period_start_ns = steady_ns
        self._in_period = 0
        return health
