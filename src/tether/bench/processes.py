"""CPU and memory of processes over a window of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil


@dataclass
class Usage:
    """CPU seconds and largest resident memory seen of one process, over `wall_s`."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    rss_mib: float = 0.0

    @property
    def cores(self) -> float:
        """Share of one core."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0


@dataclass
class _Watched:
    process: psutil.Process
    first_cpu_s: float
    first_s: float
    usage: Usage = field(default_factory=Usage)


class ProcessWatch:
    """Samples processes by name until it is stopped; use as a context manager."""

    def __init__(self, pids: Mapping[str, int], period_s: float = 0.5) -> None:
        self._pids = dict(pids)
        self._period_s = period_s
        self._watched: dict[str, _Watched] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> ProcessWatch:
        for name, pid in self._pids.items():
            try:
                process = psutil.Process(pid)
                self._watched[name] = _Watched(process, _cpu_s(process), time.monotonic())
            except psutil.NoSuchProcess:
                continue
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def usage(self) -> dict[str, Usage]:
        """What was seen of each process."""
        return {name: watched.usage for name, watched in self._watched.items()}

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(self._period_s):
            for watched in self._watched.values():
                try:
                    cpu_s, rss = _cpu_s(watched.process), watched.process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
                watched.usage.cpu_s = cpu_s - watched.first_cpu_s
                watched.usage.wall_s = time.monotonic() - watched.first_s
                watched.usage.rss_mib = max(watched.usage.rss_mib, rss / 2**20)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def usage_of_all(usages: Sequence[Mapping[str, Usage]]) -> dict[str, Usage]:
    """Over rounds; every round has the same processes."""
    return {
        name: Usage(
            sum(used[name].cpu_s for used in usages),
            sum(used[name].wall_s for used in usages),
            max(used[name].rss_mib for used in usages),
        )
        for name in usages[0]
    }
