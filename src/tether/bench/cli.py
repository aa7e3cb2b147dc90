"""`tether bench`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from tether.bench.figures import Benchmark
from tether.results import require_writable, write_json

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
    width = max(len(name) for name in BENCHMARKS)
    listed = "\n".join(f"  {name:<{width}}  {doc}" for name, (_, doc) in BENCHMARKS.items())
    parser = subparsers.add_parser(
        "bench",
        help="measure, side by side with a reference",
        description="Each benchmark measures ours and a reference in turn, and prints medians, spread and ratios.\n\n"
        f"benchmarks:\n{listed}\n\n`tether bench NAME --help` lists what one of them takes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", choices=BENCHMARKS, help="one of those above")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write. Only the module of the benchmark that is run is imported."""
    name, doc = BENCHMARKS[arguments.name]
    module = importlib.import_module(name)
    parser = argparse.ArgumentParser(prog=f"tether bench {arguments.name}", description=doc)
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
