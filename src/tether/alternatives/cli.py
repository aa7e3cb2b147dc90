"""`tether train alternatives`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.alternatives.models import FOLDER, Kind
from tether.arguments import not_negative, positive
from tether.progress import Progress
from tether.results import header, require_writable, write_json

if TYPE_CHECKING:
    from tether.alternatives.train import Training

_SCORE_SEED = 0
"""Collected are others, see `Collection`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="the models (default: %(default)s)")
    parser.add_argument(
        "--data", type=Path, default=FOLDER.parent / "data", metavar="DIR", help="episodes (default: %(default)s)"
    )
    parser.add_argument("--task", default="pick", help="to learn and score on (default: %(default)s)")
    parser.add_argument("--profile", default="real", help="likewise (default: %(default)s)")
    parser.add_argument(
        "--collect-episodes", type=positive, default=60, metavar="N", help="to learn from (default: %(default)s)"
    )
    parser.add_argument(
        "--score-episodes", type=positive, default=20, metavar="N", help="of each alternative (default: %(default)s)"
    )
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="of training (default: %(default)s)")
    parser.add_argument(
        "--workers", type=positive, default=2, help="processes that run episodes (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write errors, times and successes for machines")


def run(arguments: argparse.Namespace) -> int:
    """Collect what is missing, train, export, measure. 0 when all of it was done, whatever the figures."""
    from tether.alternatives.collect import Collection, collect, read
    from tether.alternatives.train import Training, train
    from tether.assembly import require_settings
    from tether.learning.train import single_threaded

    a = arguments
    require_settings("classic", a.task, a.profile)
    require_writable(a.out / "manifest.json")
    if a.json is not None:
        require_writable(a.json)
    collection = Collection(a.task, a.profile, a.collect_episodes)
    progress = Progress(a.collect_episodes, "episodes")
    collect(collection, a.data, a.workers, progress.step)
    single_threaded()
    training = Training(collection, seed=a.seed)
    models = Progress(2 * len(Kind), "models")
    figures = train(training, read(collection, a.data), a.out, models.step)
    success = {kind.value: _success(a, kind) for kind in Kind}
    sys.stdout.write(_table(figures, success))
    if a.json is not None:
        write_json(a.json, _json(training, figures, success, a.out))
    return 0


def _success(a: argparse.Namespace, kind: Kind) -> dict[str, Any]:
    from tether.alternatives.train import keep_success
    from tether.eval.result import Setting
    from tether.eval.runner import evaluate
    from tether.eval.statistics import summarise

    setting = Setting(f"classic+{kind.value}@{a.out}", a.task, a.profile, graph=False, seed=_SCORE_SEED)
    progress = Progress(a.score_episodes, f"episodes of {kind.value}")
    # Two workers at least: this process has torch in it, and must not render.
    results = evaluate(setting, a.score_episodes, workers=max(2, a.workers), on_result=lambda result: progress.step())
    summary = summarise(results)
    keep_success(a.out, kind, summary.successes, summary.episodes)
    return {**asdict(summary), "failed_seeds": [result.spec.seed for result in results if not result.success]}


def _table(figures: dict[str, Any], success: dict[str, Any]) -> str:
    lines = []
    for primitive, of in figures.items():
        lines.append(f"  {primitive}: {of['decisions']} decisions, {of['held_out']} held out")
        for name, row in of["by"].items():
            line = f"    {name:<14} error {row['error']:.4f}"
            if "latency_p50_us" in row:
                line += f", {row['latency_p50_us']:.0f} us (p50), {row['latency_p99_us']:.0f} us (p99)"
            lines.append(line)
    for name, row in success.items():
        lines.append(f"  {name}: {row['successes']} of {row['episodes']} episodes")
    return "\n".join(lines) + "\n"


def _json(training: Training, figures: dict[str, Any], success: dict[str, Any], root: Path) -> dict[str, Any]:
    from tether.alternatives.train import model_hashes

    return {
        **header("train alternatives", training.seed),
        "training": asdict(training),
        "models": model_hashes(root),
        "parameters": figures,
        "score_seed": _SCORE_SEED,
        "success": success,
    }
