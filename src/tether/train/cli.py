"""`tether train`."""

from __future__ import annotations

import argparse
from typing import Any

from tether.arguments import add_table_parser, chosen_module

TRAININGS = {
    "detector": ("tether.vision.cli", "picture encoder and detector, on frames rendered from the world"),
    "teacher": ("tether.teacher.cli", "hybrid-action teacher on the world's true state"),
    "student": ("tether.student.cli", "student on late, noisy sensors, distilled from a teacher"),
    "online": ("tether.bridge.cli", "student's policy, from the pairs of a robot that is running"),
    "alternatives": ("tether.alternatives.cli", "codebook and diffusion head for the parameters of reach and grasp"),
    "hybrid": ("tether.learning.cli", "hybrid SAC on any Gymnasium environment with hybrid actions"),
}
"""Name → module with `add_arguments(parser)` and `run(arguments) -> int`, and what it trains."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    add_table_parser(
        subparsers,
        "train",
        TRAININGS,
        help="train the models that a robot runs",
        intro="Training shows its rate and how long it will take, may be interrupted at any time, and goes on from "
        "where it was when it is called again.",
        title="what there is to train",
        run=run,
    )


def run(arguments: argparse.Namespace) -> int:
    """Train. Only the module of what is trained is imported."""
    module, parser = chosen_module("train", TRAININGS, arguments.name)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args(arguments.arguments))
    return status
