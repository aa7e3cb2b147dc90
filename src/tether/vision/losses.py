"""What the eyes are trained on: centres, boxes to a fraction of a pixel, and poses, which make tokens tell more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tether.vision.frames import HIDDEN_MAX, VISIBLE_MIN, Frames
from tether.vision.geometry import HEIGHT, STRIDE, WIDTH
from tether.vision.network import Sight

_SIGMA_SHARE, _SIGMA_MIN = 0.17, 0.6
"""Spread of a centre's target: share of the box's size, and least number of cells."""
_NEAR = 0.3
"""Cells whose target is above this learn the box, each its own offset, weighed by the target."""
PLACE_MEAN, PLACE_SCALE = (0.25, 0.0, 0.05), 0.1
JOINT_MEAN, JOINT_SCALE = (0.0, -1.2, 1.7, 1.0, 0.6, 0.016), (0.5, 0.5, 0.5, 0.5, 0.65, 0.0065)


@dataclass(frozen=True)
class Weights:
    """How much each part of the loss counts. Boxes are in pixels, so half a pixel of error is half a unit."""

    heat: float = 1.0
    box: float = 1.0
    pose: float = 0.2


@dataclass(frozen=True)
class Targets:
    """Labels of a batch. heat, near: (B, 24, 32). box: (B, 4, 24, 32). pose, pose_known: (B, 9). judged: (B,) whether
    the frame says anything about where centres are.
    """

    heat: Tensor
    near: Tensor
    box: Tensor
    pose: Tensor
    pose_known: Tensor
    judged: Tensor


def targets_of(frames: Frames, rows: np.ndarray) -> Targets:
    """Targets of some rows of `frames`."""
    boxes = torch.from_numpy(frames.boxes[rows])
    visible = torch.from_numpy(frames.visible[rows])
    shown = visible >= VISIBLE_MIN
    centre = 0.5 * (boxes[:, :2] + boxes[:, 2:])
    size = boxes[:, 2:] - boxes[:, :2]
    x = (torch.arange(WIDTH // STRIDE) + 0.5) * STRIDE
    y = (torch.arange(HEIGHT // STRIDE) + 0.5) * STRIDE
    dx = (centre[:, 0, None] - x)[:, None, :].expand(-1, len(y), -1)
    dy = (centre[:, 1, None] - y)[:, :, None].expand(-1, -1, len(x))
    sigma = torch.clamp(_SIGMA_SHARE * size / STRIDE, min=_SIGMA_MIN)[:, :, None, None] * STRIDE
    heat = torch.exp(-0.5 * ((dx / sigma[:, 0]) ** 2 + (dy / sigma[:, 1]) ** 2)) * shown[:, None, None]
    # The cell that holds the centre is the positive one.
    column = torch.clamp((centre[:, 0] / STRIDE).long(), 0, len(x) - 1)
    row = torch.clamp((centre[:, 1] / STRIDE).long(), 0, len(y) - 1)
    heat[torch.arange(len(rows)), row, column] = shown.float()
    wide, high = (size[:, k, None, None].expand(-1, len(y), len(x)) for k in (0, 1))
    place = (torch.from_numpy(frames.p_base_cube[rows]) - torch.tensor(PLACE_MEAN)) / PLACE_SCALE
    joints = (torch.from_numpy(frames.joints[rows]) - torch.tensor(JOINT_MEAN)) / torch.tensor(JOINT_SCALE)
    known = torch.cat([shown[:, None].expand(-1, 3), torch.ones(len(rows), 6, dtype=torch.bool)], dim=1)
    return Targets(
        heat=heat,
        near=torch.where(heat >= _NEAR, heat, torch.zeros_like(heat)),
        box=torch.stack([dx, dy, wide, high], dim=1),
        pose=torch.cat([place, joints], dim=1),
        pose_known=known.float(),
        judged=(shown | (visible <= HIDDEN_MAX)).float(),
    )


def loss_of(sight: Sight, targets: Targets, weights: Weights) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of a batch, and its parts."""
    parts = {
        "heat": _focal(sight.heat, targets),
        "box": (targets.near[:, None] * (sight.box - targets.box).abs()).sum() / (4.0 * targets.near.sum() + 1e-6),
        "pose": (targets.pose_known * functional.smooth_l1_loss(sight.pose, targets.pose, reduction="none")).mean(),
    }
    total = weights.heat * parts["heat"] + weights.box * parts["box"] + weights.pose * parts["pose"]
    return total, {name: part.detach() for name, part in parts.items()}


def _focal(logits: Tensor, targets: Targets) -> Tensor:
    """CornerNet's variant of focal loss (Law and Deng 2018, arXiv 1808.01244, equation 1)."""
    p = torch.sigmoid(logits)
    positive = (targets.heat == 1.0).float()
    hit = positive * (1.0 - p) ** 2 * functional.logsigmoid(logits)
    miss = (1.0 - positive) * (1.0 - targets.heat) ** 4 * p**2 * functional.logsigmoid(-logits)
    each = (hit + miss).sum(dim=(1, 2)) * targets.judged
    return -each.sum() / (positive.sum() + 1.0)
