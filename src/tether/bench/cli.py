"""`tether bench`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from tether.bench.figures import Benchmark
from tether.results import write_json

BENCHMARKS = {
    "world": ("tether.world.bench", "steps per second of the world against a bare MuJoCo loop"),
    "replay": ("tether.bags.bench", "delivery of a bag against bare reading, and through DDS"),
    "align": ("tether.align.bench", "matching three streams against message_filters"),
    "gate": ("tether.safety.bench", "time and jitter of one tick of the gate"),
    "graph": ("tether.bench.graph", "peak rate, latency from sensor to command, CPU and memory of each node"),
}
"""Name → module with `add_arguments(parser)` and `measure(arguments) -> Benchmark`, and what it measures."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure, side by side with a reference",
        description="Each benchmark measures ours and a reference in turn, and prints medians, spread and ratios.",
    )
    names = parser.add_subparsers(title="benchmarks", metavar="NAME", required=True)
    for name, (module, doc) in BENCHMARKS.items():
        one = names.add_parser(name, help=doc, description=doc)
        one.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
        one.set_defaults(run=run, module=module)
        importlib.import_module(module).add_arguments(one)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write."""
    result: Benchmark = importlib.import_module(arguments.module).measure(arguments)
    sys.stdout.write(result.as_table())
    if arguments.json is not None:
        write_json(arguments.json, result.as_json())
    return 0
