"""`tether train teacher`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tether.arguments import not_negative, positive
from tether.results import require_writable

if TYPE_CHECKING:
    from tether.learning.sac import Agent
    from tether.teacher.train import TeacherConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--out", type=Path, default=Path("runs/teacher"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="of the run (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=45.0, help="stop after so long (default: %(default)s)")
    parser.add_argument("--steps", type=positive, metavar="N", help="stop after so many decisions")
    parser.add_argument("--demos", type=positive, metavar="N", help="episodes of the scripted oracle to learn from")
    parser.add_argument("--profile", help="where it learns (default: ideal_lagged)")
    parser.add_argument(
        "--score-episodes", type=positive, default=20, metavar="N", help="for each task and kind of start, at the end"
    )
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the best policy there as a model to be run")
    parser.add_argument("--version", default="1", help="of the exported model (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Train, or go on training, score and export. 0 when it came to its end."""
    from tether.learning.train import single_threaded
    from tether.teacher.train import score, train

    a = arguments
    require_writable(a.out / "checkpoint.npz")
    if a.export is not None:
        require_writable(a.export / "manifest.json")
    single_threaded()
    config = _config(a)
    agent = train(a.out, config)
    scores = score(agent, config.env, a.score_episodes)
    for name, share in scores.items():
        sys.stdout.write(f"  {name:<26} {share:.1%} of {a.score_episodes}\n")
    if a.export is not None:
        _export(agent, config, scores, a.export, a.version)
    return 0


def _config(a: argparse.Namespace) -> TeacherConfig:
    from tether.teacher.train import TeacherConfig

    config = TeacherConfig(minutes=a.minutes, seed=a.seed)
    if a.steps is not None:
        config = dataclasses.replace(config, learning=dataclasses.replace(config.learning, steps=a.steps))
    if a.demos is not None:
        config = dataclasses.replace(config, demo_episodes=a.demos)
    if a.profile is not None:
        config = dataclasses.replace(config, env=dataclasses.replace(config.env, profile=a.profile))
    return config


def _export(agent: Agent, config: TeacherConfig, scores: Mapping[str, float], folder: Path, version: str) -> None:
    from tether.assembly import profile, skills, task
    from tether.teacher.export import export_teacher

    trained_on = {f"task {name}": task(name).sha256 for name in config.env.tasks}
    trained_on[f"profile {config.env.profile}"] = profile(config.env.profile).sha256
    named = {f"success {name}": share for name, share in scores.items()}
    session = export_teacher(
        folder, agent, skills(), version=version, seed=config.seed, trained_on=trained_on, scores=named
    )
    sys.stdout.write(f"model: {folder}, sha256 {session.manifest.sha256}\n")
