"""The arbiter's threshold as training goes on: it follows what is usual for the student, downwards only."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tether.config import bounded


@dataclass(frozen=True)
class ThresholdConfig:
    """How the threshold tightens: to `margin` times the `quantile` of the last `window` errors, not below `floor`."""

    floor: float = bounded(0.001, 10.0, default=0.05)
    quantile: float = bounded(0.5, 1.0, default=0.99)
    margin: float = bounded(1.0, 10.0, default=1.5)
    window: int = bounded(10, 1_000_000, unit="decisions", default=4000)
    least: int = bounded(1, 1_000_000, unit="decisions", default=400, doc="errors before anything is concluded")


class MovingThreshold:
    """Errors of decisions in, the threshold out. It never loosens: a student that got worse is what it is there for."""

    def __init__(self, config: ThresholdConfig, start: float) -> None:
        self._config = config
        self._errors: deque[float] = deque(maxlen=config.window)
        self._value = start

    @property
    def value(self) -> float:
        """The threshold as it stands."""
        return self._value

    def observe(self, errors: Iterable[float | None]) -> float:
        """Take the errors of an episode (None and what is not finite are left out); the threshold after it."""
        self._errors.extend(e for e in errors if e is not None and math.isfinite(e) and e >= 0.0)
        if len(self._errors) >= self._config.least:
            usual = float(np.quantile(np.array(self._errors), self._config.quantile))
            self._value = min(self._value, max(self._config.floor, self._config.margin * usual))
        return self._value
