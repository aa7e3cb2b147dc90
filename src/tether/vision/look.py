"""The network in torch looking at frames, for scores during training."""

from __future__ import annotations

import numpy as np
import torch

from tether.contracts import F32
from tether.vision.frames import Frames
from tether.vision.geometry import decode, suppress
from tether.vision.metrics import score
from tether.vision.network import EyesNetwork

CONFIDENCE_MIN, IOU_MAX, CANDIDATES_MAX = 0.05, 0.5, 16
"""Scores take candidates down to this confidence, as average precision asks for."""
SCORED_CONFIDENCE = 0.3


@torch.no_grad()
def boxes_of(network: EyesNetwork, frames: Frames, batch: int = 64) -> list[F32]:
    """Boxes in each frame, in the frames' pixels."""
    found: list[F32] = []
    network.eval()
    for start in range(0, len(frames), batch):
        with torch.autocast("cpu", torch.bfloat16):
            sight = network(torch.from_numpy(frames.pictures[start : start + batch]))
        confidence = torch.sigmoid(sight.heat).float().numpy()
        boxes = sight.box.float().numpy()
        for heat, box in zip(confidence, boxes, strict=True):
            found.append(suppress(decode(heat, box, CONFIDENCE_MIN, CANDIDATES_MAX), IOU_MAX))
    return found


def scores_of(network: EyesNetwork, frames: Frames) -> dict[str, float]:
    """Scores on `frames` by name."""
    return score(frames, boxes_of(network, frames), SCORED_CONFIDENCE).as_dict()


def part_of(frames: Frames, count: int) -> Frames:
    """The first `count` frames."""
    return Frames(**{name: np.asarray(getattr(frames, name))[:count] for name in vars(frames)})
