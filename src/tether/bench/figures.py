"""Figures of benchmarks in the form that results have: metrics with percentiles, ratios with their spread."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether.results import header


@dataclass(frozen=True)
class Metric:
    """Distribution of one measured quantity."""

    median: float
    p50: float
    p99: float
    min: float
    max: float
    n: int
    unit: str

    @staticmethod
    def of(values: Sequence[float], unit: str) -> Metric:
        """From one or more values."""
        if not len(values):
            raise ValueError("a metric of no values; measure something first")
        a = np.asarray(values, dtype=np.float64)
        p50, p99 = (float(x) for x in np.percentile(a, (50, 99)))
        return Metric(float(np.median(a)), p50, p99, float(a.min()), float(a.max()), int(a.size), unit)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as `against`: median over pairs, and the middle 80 % of them as low and high."""

    value: float
    low: float
    high: float
    against: str

    @staticmethod
    def of(times_s: Sequence[float], against_s: Sequence[float], against: str) -> Ratio:
        """From times for the same work, measured in turn: pair i of both was measured next to each other."""
        if len(times_s) != len(against_s) or not len(times_s):
            raise ValueError(f"{len(times_s)} times against {len(against_s)}; expected equally many, at least one")
        ratios = np.asarray(against_s, dtype=np.float64) / np.asarray(times_s, dtype=np.float64)
        low, high = (float(x) for x in np.percentile(ratios, (10, 90)))
        return Ratio(float(np.median(ratios)), low, high, against)


@dataclass(frozen=True)
class Benchmark:
    """Outcome of one benchmark. notes: what a reader must know to judge the figures."""

    name: str
    metrics: dict[str, Metric]
    ratios: dict[str, Ratio]
    notes: tuple[str, ...] = ()

    def as_json(self, seed: int = 0) -> dict[str, Any]:
        """See docs/results.md."""
        return {
            **header(f"bench {self.name}", seed),
            "metrics": {name: asdict(metric) for name, metric in self.metrics.items()},
            "ratios": {name: asdict(ratio) for name, ratio in self.ratios.items()},
            "notes": list(self.notes),
        }

    def as_table(self) -> str:
        """For a terminal."""
        lines = [f"bench {self.name}"]
        width = max((len(n) for n in (*self.metrics, *self.ratios)), default=0)
        for name, m in self.metrics.items():
            lines.append(f"  {name:<{width}}  {m.median:.4g} {m.unit}  (min {m.min:.4g}, p99 {m.p99:.4g}, n {m.n})")
        for name, r in self.ratios.items():
            lines.append(f"  {name:<{width}}  {r.value:.2f} x {r.against}  ({r.low:.2f} to {r.high:.2f})")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines) + "\n"


def in_turn(calls: Sequence[Callable[[], Any]], rounds: int, warm_up: int = 1) -> list[list[float]]:
    """Times in seconds of each call, measured in turn A B A B … so that drift of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for i in range(warm_up + rounds):
        for call, kept in zip(calls, times, strict=True):
            gc.collect()
            start = time.perf_counter()
            call()
            took = time.perf_counter() - start
            if i >= warm_up:
                kept.append(took)
    return times
