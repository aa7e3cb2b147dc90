"""What heartbeats cost: `tether bench heartbeat`. One beat a process against a bond of 10 Hz for each node."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from tether.arguments import positive
from tether.bench.figures import Benchmark, Metric, Ratio
from tether.errors import Fault, InvalidInputError, TetherError
from tether.launch.domain import own_domain
from tether.resources import resource_path
from tether.safety.heartbeat import Beat, HeartbeatMonitor, Pulse
from tether.safety.settings import load_safety

_WAYS = ("none", "composed", "separate", "bonds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument(
        "--rounds", type=positive, default=5, help="measurements of each way, in turn (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each (default: %(default)s)")
    parser.add_argument("--no-dds", action="store_true", help="only what needs no ROS: counting and monitoring")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """`tether bench heartbeat`."""
    if arguments.rounds < 1 or not 1.0 <= arguments.seconds <= 600.0:
        found = f"--rounds {arguments.rounds} --seconds {arguments.seconds:g}"
        raise InvalidInputError("bench heartbeat", [Fault("arguments", found, "rounds ≥ 1, 1 s to 600 s")])
    metrics = _core_costs()
    if arguments.no_dds:
        return Benchmark("heartbeat", metrics, {})
    if importlib.util.find_spec("tether_ros") is None:
        raise InvalidInputError(
            "bench heartbeat", [Fault("tether_ros", "not there", "built")], "make setup, or --no-dds"
        )
    used: dict[str, list[dict[str, dict[str, float]]]] = {way: [] for way in _WAYS}
    for _ in range(arguments.rounds):
        for way in _WAYS:
            used[way].append(_run(way, arguments.seconds))
    for way in _WAYS:
        for side in ("graph", "listener"):
            metrics[f"{way}_{side}"] = Metric.of([100.0 * u[side]["cores"] for u in used[way]], "% of a core")
        if way != "none":
            metrics[f"{way}_beats_heard"] = Metric.of([u["listener"]["heard_hz"] for u in used[way]], "Hz")
    extra = {way: [_cores(u) - _cores(n) for u, n in zip(used[way], used["none"], strict=True)] for way in _WAYS[1:]}
    for way, cores in extra.items():
        metrics[f"{way}_beats_cost"] = Metric.of([100.0 * c for c in cores], "% of a core")
    floor = 1e-4
    ratios = {
        f"{way}_against_bonds": Ratio.of(
            [max(c, floor) for c in extra[way]], [max(c, floor) for c in extra["bonds"]], "a bond of 10 Hz a node"
        )
        for way in ("composed", "separate")
    }
    notes = (
        "graph: seven nodes whose loops turn as the graph's do, in one process; listener: who watches them",
        "…_beats_cost: both sides, less what the same processes use without any beats; pairs measured in turn",
        "composed: one beat for all; separate: one a node, as where each is a process; bonds: 10 Hz a node, both ways",
    )
    return Benchmark("heartbeat", metrics, ratios, notes)


def _run(way: str, seconds: float) -> dict[str, dict[str, float]]:
    with own_domain() as domain:
        environ = {**os.environ, "ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        command = [sys.executable, "-m", "tether_ros.beat_cost", way, "--seconds", str(seconds)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=seconds + 90.0, check=False)
    if done.returncode:
        raise TetherError(f"tether_ros.beat_cost {way} ended with {done.returncode}: {done.stderr[-500:]}")
    result: dict[str, dict[str, float]] = json.loads(done.stdout)
    return result


def _cores(used: dict[str, dict[str, float]]) -> float:
    return used["graph"]["cores"] + used["listener"]["cores"]


def _core_costs() -> dict[str, Metric]:
    """Nanoseconds of counting a turn, of taking a beat, and of the tick's question while all is well."""
    rules = load_safety(resource_path("config", "safety.yaml")).heartbeats
    names = tuple(rules.loops)
    pulse, monitor = Pulse(rules), HeartbeatMonitor(rules)
    beats = [Beat("composed", 1, names, (k,) * len(names)) for k in range(1000)]
    return {
        "turn_ns": _cost(lambda k: pulse.turn(names[k % len(names)], k)),
        "hear_ns": _cost(lambda k: monitor.hear(beats[k % 1000], k)),
        "question_of_a_tick_ns": _cost(lambda k: monitor.offline(k)),
    }


def _cost(call: Callable[[int], object], batch: int = 100) -> Metric:
    took = []
    for start in range(0, 20_000, batch):
        begun = time.perf_counter_ns()
        for k in range(start, start + batch):
            call(k)
        took.append((time.perf_counter_ns() - begun) / batch)
    return Metric.of(took, "ns")
