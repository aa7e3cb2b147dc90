"""`tether bench`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tether.arguments import add_table_parser, chosen_module
from tether.bench.figures import Benchmark
from tether.results import require_writable, write_json

BENCHMARKS = {
    "world": ("tether.world.bench", "steps per second of the world against a bare MuJoCo loop"),
    "replay": ("tether.bags.bench", "delivery of a bag against bare reading, and through DDS"),
    "align": ("tether.align.bench", "matching three streams against message_filters"),
    "gate": ("tether.safety.bench", "time and jitter of one tick of the gate"),
    "integrity": ("tether.integrity.bench", "an update of the critical state: tree, signature, database, disk"),
    "breaker": ("tether.bench.breaker", "what the reward breaker catches, its false trips and its cost"),
    "heartbeat": ("tether.bench.heartbeat", "CPU of one beat a process against bond-like beats of every node"),
    "rewards": ("tether.rewards.bench", "subgoals verified by the robot's sensors against the world's state"),
    "bus": ("tether.hardware.bench", "servo bus and IMU of the robot against emulated devices"),
    "gateway": ("tether.bench.gateway", "many calls at a time, with kills of workers, Redis and the gateway"),
    "memory": (
        "tether.memory.bench",
        "what remembering costs, a plan from memory against search, places found again by their looks",
    ),
    "handover": ("tether.memory.handover_bench", "agents' turns by shared state: from one's write to another's read"),
    "encoder": ("tether.bench.encoder", "encoder and policy of the student against torch and bare ONNX Runtime"),
    "graph": ("tether.bench.graph", "peak rate, latency from sensor to command, CPU and memory of each node"),
}
"""Name → module with `add_arguments(parser)` and `measure(arguments) -> Benchmark`, and what it measures."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    add_table_parser(
        subparsers,
        "bench",
        BENCHMARKS,
        help="measure, side by side with a reference",
        intro="Each benchmark measures ours and a reference in turn, and prints medians, spread and ratios.",
        title="benchmarks",
        run=run,
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write. Only the module of the benchmark that is run is imported."""
    module, parser = chosen_module("bench", BENCHMARKS, arguments.name)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
    module.add_arguments(parser)
    chosen = parser.parse_args(arguments.arguments)
    if chosen.json is not None:
        require_writable(chosen.json)
    result: Benchmark = module.measure(chosen)
    sys.stdout.write(result.as_table())
    if chosen.json is not None:
        write_json(chosen.json, result.as_json())
    return 0
