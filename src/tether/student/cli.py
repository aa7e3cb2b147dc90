"""`tether train student`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tether.arguments import not_negative, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the training; one begun goes on"
    )
    parser.add_argument("--task", default="pick_moving", help="default: %(default)s")
    parser.add_argument(
        "--profile", default="real", help="the profiles of training lie around it (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=positive, default=3, help="collect, train, export (default: %(default)s)")
    parser.add_argument("--episodes", type=positive, nargs="+", default=[800, 300], help="of each round")
    parser.add_argument("--steps", type=positive, nargs="+", default=[6000, 3000], help="of each round's training")
    parser.add_argument("--seed", type=not_negative, default=0)
    parser.add_argument(
        "--workers", type=positive, default=1, help="processes that collect; they change nothing but time"
    )
    parser.add_argument("--threads", type=positive, default=1, help="of torch")
    parser.add_argument(
        "--eyes", type=Path, metavar="DIR", help="image encoder whose tokens it gets (default: boxes alone)"
    )
    parser.add_argument("--teacher", type=Path, metavar="DIR", help="teacher that labels (default: the scripted one)")
    parser.add_argument("--exact", action="store_true", help="only the profile itself, nothing drawn around it")
    parser.add_argument(
        "--compensation",
        choices=("full", "history", "none"),
        default="full",
        help="baselines: history stacking, or nothing made up for (default: %(default)s)",
    )
    parser.add_argument("--action-mse", action="store_true", help="baseline: plain regression of the teacher's action")


def run(arguments: argparse.Namespace) -> int:
    """Train. 0 when all rounds are done."""
    from tether.threads import use_one_thread

    use_one_thread()
    import torch

    from tether.assembly import require_settings
    from tether.progress import Progress
    from tether.student.distil import Distillation, distil
    from tether.student.network import Compensation, NetworkConfig
    from tether.student.profiles import Spread
    from tether.student.train import TrainConfig

    a = arguments
    require_settings("classic", a.task, a.profile)
    torch.set_num_threads(a.threads)
    network = NetworkConfig(compensation=Compensation(a.compensation))
    plan = Distillation(
        task=a.task,
        profile=a.profile,
        rounds=a.rounds,
        episodes=tuple(a.episodes),
        steps=tuple(a.steps),
        seed=a.seed,
        workers=a.workers,
        eyes=a.eyes,
        teacher=a.teacher,
        spread=None if a.exact else Spread(),
        training=TrainConfig(action_mse=a.action_mse, network=network),
    )
    progress = Progress(sum(plan.steps[min(n, len(plan.steps) - 1)] for n in range(plan.rounds)), "steps")
    last = distil(plan, a.out, lambda text: _say(text), progress.step)
    _say(f"student: {last}; try it: tether eval --policy student@{last} --task {a.task} --profile {a.profile}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
