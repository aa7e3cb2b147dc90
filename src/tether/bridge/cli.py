"""`tether train online`: the trainer's process of online distillation."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from tether.arguments import not_negative, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--spool", type=Path, required=True, metavar="DIR", help="where the bridge writes pairs to")
    parser.add_argument(
        "--versions", type=Path, required=True, metavar="DIR", help="where new versions of the policy are published"
    )
    parser.add_argument(
        "--student", default="student", help="student to go on teaching: student or student@FOLDER (default: shipped)"
    )
    parser.add_argument("--publish-every", type=positive, metavar="N", help="updates between two versions")
    parser.add_argument("--batch", type=positive, metavar="N", help="pairs of an update")
    parser.add_argument("--least", type=positive, metavar="N", help="pairs before training begins")
    parser.add_argument("--updates", type=positive, metavar="N", help="stop after so many (default: never)")
    parser.add_argument("--seed", type=not_negative, default=0)
    parser.add_argument("--threads", type=positive, default=1, help="of torch")


def run(arguments: argparse.Namespace) -> int:
    """Train until interrupted, or for as many updates as asked for."""
    from tether.threads import use_one_thread

    use_one_thread()
    import torch

    from tether.assembly import arbiter_config, skills
    from tether.bridge.learner import PolicyLearner
    from tether.bridge.online import OnlineConfig, OnlineTrainer
    from tether.bridge.threshold import MovingThreshold
    from tether.bridge.versions import versions_in
    from tether.student.naming import parse_name

    a = arguments
    torch.set_num_threads(a.threads)
    given = {"batch": a.batch, "least": a.least, "publish_every": a.publish_every, "seed": a.seed}
    config = OnlineConfig(**{name: value for name, value in given.items() if value is not None})
    arbiter = arbiter_config()
    start = parse_name(a.student).model_folder("policy").parent
    learner = PolicyLearner(start, skills().sha256, seed=a.seed)
    newest = versions_in(a.versions)
    if newest:
        learner.go_on_from(newest[-1][1])
    threshold = MovingThreshold(arbiter.tighten, arbiter.threshold)
    trainer = OnlineTrainer(learner, a.spool, a.versions, config, threshold)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _say(f"trainer: pairs from {a.spool}, versions to {a.versions}, from {newest[-1][1] if newest else start}")
    trainer.run(_say, lambda: ended.is_set() or (a.updates is not None and trainer.steps >= a.updates))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """The same as a program of its own, for launch files."""
    parser = argparse.ArgumentParser(prog="trainer", description=__doc__)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
