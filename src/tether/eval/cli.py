"""`tether eval`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tether.progress import Progress
from tether.results import write_json


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "eval",
        help="success of a policy on a task under a profile",
        description="Runs episodes with consecutive seeds and reports success with its 95 % Wilson interval, attempts, "
        "times and failures by reason. An interrupted evaluation goes on where it stopped.",
    )
    parser.add_argument("--policy", required=True, help="scripted (an oracle) or classic")
    parser.add_argument("--task", default="pick", help="name in config/tasks or a YAML file (default: %(default)s)")
    parser.add_argument(
        "--profile", default="real", help="name in config/profiles or a YAML file (default: %(default)s)"
    )
    parser.add_argument("--episodes", type=_positive, default=100, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=_not_negative, default=0, metavar="S", help="seed of the first episode")
    parser.add_argument("--graph", action="store_true", help="through the live ROS 2 nodes, in lockstep")
    parser.add_argument("--truth-age-ms", type=_age, default=0.0, metavar="MS", help="age of the truth an oracle gets")
    parser.add_argument("--workers", type=_positive, default=os.cpu_count() or 1, help="processes of the core loop")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write a page with plots and films of two episodes")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0 when all episodes ran, whatever their success."""
    from tether.eval.journal import Journal
    from tether.eval.result import Setting, as_json, as_table
    from tether.eval.runner import evaluate

    a = arguments
    setting = Setting(a.policy, a.task, a.profile, a.graph, a.seed, a.truth_age_ms)
    journal = a.json.with_name(a.json.name + ".journal") if a.json is not None else None
    progress = Progress(a.episodes, "episodes")
    if a.graph:
        from tether.eval.graph import evaluate_graph

        results = evaluate_graph(setting, a.episodes, on_result=lambda r: progress.step())
    else:
        results = evaluate(setting, a.episodes, workers=a.workers, journal=journal, on_result=lambda r: progress.step())
    sys.stdout.write(as_table(setting, results))
    if a.json is not None:
        write_json(a.json, as_json(setting, results))
        if journal is not None:
            Journal(journal, setting.key()).remove()
    if a.report is not None:
        from tether.eval.report import write_report

        sys.stdout.write(f"report: {write_report(a.report, setting, results)}\n")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: expected at least 1")
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value}: expected 0 or more")
    return value


def _age(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1000.0:
        raise argparse.ArgumentTypeError(f"{value}: expected 0 to 1000 ms")
    return value
