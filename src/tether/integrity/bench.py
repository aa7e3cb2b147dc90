"""`tether bench integrity`: what one update of the critical state costs, on the caller's thread and on the store's."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tether.arguments import positive
from tether.bench.figures import Benchmark, Metric
from tether.integrity.critical import INITIAL, Item
from tether.integrity.keeper import Keeper
from tether.integrity.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--updates", type=positive, default=500, help="updates (default: %(default)s)")
    parser.add_argument("--period-ms", type=float, default=10.0, help="time between them (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the state lies while measured; its disk is part of it"
    )


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Updates at the gate's rate through a Keeper, then opening what they left."""
    parent = arguments.folder
    with tempfile.TemporaryDirectory(prefix="tether-bench-", dir=parent) as folder:
        metrics = _updates(Path(folder) / "state", arguments.updates, arguments.period_ms * 1e-3)
        metrics["open_and_verify"] = _opening(Path(folder) / "state")
    with tempfile.TemporaryDirectory(prefix="tether-bench-", dir=_memory()) as folder:
        metrics["update_without_disk"] = _updates(Path(folder) / "state", arguments.updates, 0.002)["update"]
    note = "update: on the store's thread, with two flushes of the disk; update_without_disk: the same in memory"
    return Benchmark("integrity", metrics, {}, (note, f"open_and_verify: {arguments.updates} records"))


def _updates(folder: Path, updates: int, period_s: float) -> dict[str, Metric]:
    submits: list[float] = []
    checks: list[float] = []
    with Keeper(folder, INITIAL, time.time_ns()) as keeper:
        next_s = time.monotonic()
        for i in range(updates):
            start = time.perf_counter_ns()
            keeper.submit({Item.SKILL.value: f"skill {i}".encode()}, time.time_ns())
            submits.append((time.perf_counter_ns() - start) * 1e-3)
            start = time.perf_counter_ns()
            intact = keeper.snapshot.intact()
            checks.append((time.perf_counter_ns() - start) * 1e-3)
            if not intact:
                raise AssertionError("a state that nobody touched does not hash to its root")
            next_s += period_s
            time.sleep(max(0.0, next_s - time.monotonic()))
        keeper.settle(60.0)
        times = [ns * 1e-6 for ns in keeper.times_ns]
    return {
        "submit": Metric.of(submits, "us"),
        "check_in_memory": Metric.of(checks, "us"),
        "update": Metric.of(times, "ms"),
    }


def _opening(folder: Path) -> Metric:
    times = []
    for _ in range(5):
        start = time.perf_counter_ns()
        with Store(folder, INITIAL, 0):
            times.append((time.perf_counter_ns() - start) * 1e-6)
    return Metric.of(times, "ms")


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
