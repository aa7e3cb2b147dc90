"""`tether train detector`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tether.arguments import not_negative, positive

if TYPE_CHECKING:
    from tether.vision.frames import Frames

DEFAULT_STEPS, DEFAULT_FRAMES, DEFAULT_HELD_OUT = 3000, 24_000, 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--kind",
        choices=("head", "yolo"),
        default="head",
        help="head: the shipped eyes' network (default); yolo: Ultralytics YOLOv8n, AGPL-3.0, needs the extra `detect`",
    )
    parser.add_argument("--epochs", type=positive, default=10, help="of yolo, which counts no steps (default 10)")
    parser.add_argument("--steps", type=positive, default=DEFAULT_STEPS, help=f"default {DEFAULT_STEPS}")
    parser.add_argument("--batch", type=positive, default=24, help="frames a step (default 24)")
    parser.add_argument("--frames", type=positive, default=DEFAULT_FRAMES, help=f"default {DEFAULT_FRAMES}")
    parser.add_argument("--held-out", type=positive, default=DEFAULT_HELD_OUT, help=f"default {DEFAULT_HELD_OUT}")
    parser.add_argument("--seed", type=not_negative, default=0)
    parser.add_argument("--threads", type=positive, default=2, help="threads of torch (default 2)")
    parser.add_argument("--float32", action="store_true", help="train without bfloat16, for processors that lack it")
    parser.add_argument(
        "--precision", choices=("float32", "int8"), default="int8", help="of the exported model (default int8)"
    )
    parser.add_argument("--data", type=Path, default=Path("runs/vision"), help="folder of frames (default runs/vision)")
    parser.add_argument("--out", type=Path, help="checkpoints, scalars, result.json (default DATA/eyes, or DATA/yolo)")
    parser.add_argument(
        "--rollouts", type=positive, default=4, help="episodes of each task whose pictures are scored too (default 4)"
    )
    parser.add_argument("--models", type=Path, default=None, help="where the model goes (default OUT/model)")


def run(arguments: argparse.Namespace) -> int:
    """Render what is missing, train, export, score. Ctrl-C ends training early and exports what there is."""
    import torch

    torch.set_num_threads(arguments.threads)
    return _run_yolo(arguments) if arguments.kind == "yolo" else _run_head(arguments)


def _frames(arguments: argparse.Namespace) -> tuple[Frames, Frames]:
    """Frames to train on, and held-out ones."""
    from tether.vision.frames import HELD_OUT_SEED, FramesConfig, make_frames

    config = FramesConfig(frames=arguments.frames, seed=2 * arguments.seed)
    held = replace(
        config, frames=arguments.held_out, episodes=12, seed=2 * arguments.seed + 1, first_world_seed=HELD_OUT_SEED
    )
    held_out = make_frames(arguments.data / "held-out", held)
    return make_frames(arguments.data / "train", config), held_out


def _run_yolo(arguments: argparse.Namespace) -> int:
    # By name, so that nothing of Tether imports it unless it is asked for: see tether_yolo on its licence.
    training = importlib.import_module("tether_yolo.train")
    training.ultralytics_yolo()  # said before hours of work, not after
    frames, held_out = _frames(arguments)
    out = arguments.out or arguments.data / "yolo"
    folder = arguments.models or out / "model"
    config = training.YoloTraining(epochs=arguments.epochs, seed=arguments.seed)
    scores = training.train(frames, held_out, out, folder, config)
    _say(scores, folder)
    return 0


def _say(scores: Mapping[str, float], folder: Path) -> None:
    sys.stdout.write("".join(f"{name:24} {value:.4g}\n" for name, value in scores.items()))
    sys.stdout.write(f"model: {folder}\n")


def _run_head(arguments: argparse.Namespace) -> int:
    from tether.ingest.detector import ColourDetector
    from tether.ingest.encoder import DetectorEncoder
    from tether.vision.eyes import LearnedEyes
    from tether.vision.look import part_of, scores_of
    from tether.vision.release import release, write_result
    from tether.vision.rollouts import scores_on_rollouts
    from tether.vision.train import TrainConfig, Trainer

    frames, held_out = _frames(arguments)
    out = arguments.out or arguments.data / "eyes"
    config = TrainConfig(
        steps=arguments.steps, batch=arguments.batch, seed=arguments.seed, bfloat16=not arguments.float32
    )
    trainer = Trainer(out, frames, config)
    few = part_of(held_out, 256)
    try:
        trainer.learn(lambda network: scores_of(network, few))
    except KeyboardInterrupt:
        sys.stderr.write(f"\nstopped at step {trainer.step}; the same command goes on from there\n")
    folder = arguments.models or out / "model"
    scores = release(trainer, frames, held_out, folder, arguments.precision)
    rollouts = scores_on_rollouts(
        {"eyes": LearnedEyes.load(folder), "colour": DetectorEncoder(ColourDetector())}, "real", arguments.rollouts
    )
    write_result(out / "result.json", trainer, folder, rollouts)
    for eyes, figures in rollouts.items():
        sys.stdout.write(f"rollouts, {eyes}: " + ", ".join(f"{k} {v:.4g}" for k, v in figures.items()) + "\n")
    _say(scores, folder)
    return 0
