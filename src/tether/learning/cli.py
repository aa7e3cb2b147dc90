"""`tether train hybrid`."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.arguments import not_negative, positive
from tether.results import header, require_writable, write_json

if TYPE_CHECKING:
    from tether.learning.config import TrainConfig
    from tether.learning.evaluate import Scores

_MEASURE = 2
"""Stream of episode seeds of the final measurement; training has 0, the evaluations within it 1."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--env", required=True, metavar="ENV", help="platform, goal or MODULE:FACTORY")
    parser.add_argument(
        "--env-path", type=Path, action="append", default=[], metavar="DIR", help="folder to import from; repeatable"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: runs/hybrid/ENV; one folder a seed in it")
    parser.add_argument("--seeds", type=not_negative, nargs="+", default=[0], metavar="S", help="one run each")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML with keys of TrainConfig")
    parser.add_argument("--steps", type=positive, metavar="N", help="decisions of each run")
    parser.add_argument("--episodes", type=positive, default=500, metavar="N", help="measured after each run")
    parser.add_argument("--measure-only", action="store_true", help="measure what was trained so far")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the first seed's actor as an ONNX model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def run(arguments: argparse.Namespace) -> int:
    """Train each seed, or go on; then measure the agents that did best in evaluation, on episodes of their own."""
    from tether.learning.adapters import make_environment
    from tether.learning.sac import Agent
    from tether.learning.train import BEST, learn, single_threaded

    a = arguments
    out = a.out if a.out is not None else Path("runs/hybrid") / a.env.replace(":", "_")
    single_threaded()
    make_env = make_environment(a.env, a.env_path)
    config = _config(a)
    require_writable(out / "checkpoint.npz")
    if a.json is not None:
        require_writable(a.json)
    rows = []
    for seed in a.seeds:
        folder = out / f"seed_{seed}"
        if not a.measure_only:
            with _Stop() as stop:
                learn(make_env, config, folder, seed, stop=stop)
            if stop.asked:
                sys.stderr.write(f"stopped; the same command goes on from {folder}\n")
                return 130
        rows.append(_row(seed, folder, Agent.load(folder / BEST), make_env(), a.episodes))
        sys.stdout.write(_line(rows[-1]) + "\n")
    result = _result(a, config, rows)
    sys.stdout.write(
        f"{a.env}: {result['mean']:.4f} ± {result['std']:.4f} ({result['figure']}) over {len(rows)} seeds\n"
    )
    if a.json is not None:
        write_json(a.json, result)
    if a.export is not None:
        _export(a, out / f"seed_{a.seeds[0]}" / BEST, rows[0])
    return 0


class _Stop:
    """Asked for by the first SIGINT or SIGTERM: the episode is ended and the run kept. A second one acts as ever."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.asked

    def __enter__(self) -> _Stop:
        self._before = {number: signal.signal(number, self._on) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on(self, number: int, frame: Any) -> None:
        self.asked = True
        self.__exit__()


def _config(a: argparse.Namespace) -> TrainConfig:
    from tether.config import load
    from tether.learning.config import TrainConfig
    from tether.learning.presets import PRESETS

    config = load(a.config, TrainConfig) if a.config is not None else PRESETS.get(a.env, TrainConfig())
    return config if a.steps is None else dataclasses.replace(config, steps=a.steps)


def _row(seed: int, folder: Path, agent: Any, env: Any, episodes: int) -> dict[str, Any]:
    from tether.learning import arrays as files
    from tether.learning.evaluate import evaluate
    from tether.learning.train import CHECKPOINT

    scores: Scores = evaluate(agent, env, episodes, seed, _MEASURE)
    _, meta = files.load(folder / CHECKPOINT)
    return {
        "seed": seed,
        "steps": meta["step"],
        "episodes_trained": meta["episode"],
        "episodes": episodes,
        "mean_return": scores.mean_return,
        "success_rate": scores.success_rate,
        "mean_length": sum(scores.lengths) / episodes,
        "evaluations": meta["history"],
    }


def _line(row: dict[str, Any]) -> str:
    success = "" if row["success_rate"] is None else f", success {row['success_rate']:.3f}"
    return f"  seed {row['seed']}: {row['steps']} decisions, return {row['mean_return']:.4f}{success}"


def _result(a: argparse.Namespace, config: TrainConfig, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    import numpy as np

    from tether.learning.plain import config_to_plain

    figure = "mean_return" if any(row["success_rate"] is None for row in rows) else "success_rate"
    values = [row[figure] for row in rows]
    return {
        **header("train hybrid", a.seeds[0]),
        "env": a.env,
        "config": config_to_plain(config),
        "seeds": list(a.seeds),
        "episodes": a.episodes,
        "figure": figure,
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
        "min": min(values),
        "max": max(values),
        "per_seed": list(rows),
    }


def _export(a: argparse.Namespace, path: Path, row: dict[str, Any]) -> None:
    from tether.learning.export import export_actor
    from tether.learning.sac import Agent

    scores = {name: row[name] for name in ("mean_return", "success_rate") if row[name] is not None}
    session = export_actor(
        Agent.load(path), a.export, version="1", seed=row["seed"], trained_on={"environment": a.env}, scores=scores
    )
    sys.stdout.write(f"model: {a.export}, sha256 {session.manifest.sha256}\n")
