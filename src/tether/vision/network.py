"""The eyes' network: ResNet34 up to its third stage, 48 tokens, and a detector that hangs on them.

The trunk is torchvision's ResNet34 (He et al. 2016, arXiv 1512.03385) without its last stage, so a picture of 128 x 96
leaves a map of 8 x 6. Each cell of it is one token. The detector is CenterNet's (Zhou et al. 2019, arXiv 1904.07850):
at stride 4 a map of centres, and in each cell the offset to the box's centre and its size; a top-down path (Lin et al.
2017, arXiv 1612.03144) brings the tokens' view of the whole to the fine map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet34

from tether.vision.geometry import HEIGHT, STRIDE, TOKEN_DIM, TOKENS, WIDTH

MEAN, STD = 0.45, 0.25
_SIZE_SCALE = 8.0
"""Pixels a unit of the size outputs is worth; those of the offset are worth a cell."""
_PRIOR = 0.01
"""Confidence everywhere at first, so that the empty cells do not drown the first steps (Lin et al. 2017, RetinaNet)."""


@dataclass(frozen=True)
class Sight:
    """What the network makes of a batch.

    tokens: (B, 48, 64). heat: (B, 24, 32) logits. box: (B, 4, 24, 32), the centre's offset from the cell's centre and
    the size, in the picture's pixels. pose: (B, 9), normalised place of the cube and joints, for training only.
    """

    tokens: Tensor
    heat: Tensor
    box: Tensor
    pose: Tensor


class EyesNetwork(nn.Module):
    """pictures: (B, 96, 128, 3) uint8 in, `Sight` out."""

    def __init__(self) -> None:
        super().__init__()
        trunk: Any = resnet34(weights=None)
        self.stem = nn.Sequential(trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool)
        self.stage1, self.stage2, self.stage3 = trunk.layer1, trunk.layer2, trunk.layer3
        self.to_tokens = _lateral(256)
        self.lateral2 = _lateral(128)
        self.lateral1 = _lateral(64)
        self.refine = nn.Sequential(
            nn.Conv2d(TOKEN_DIM, TOKEN_DIM, 3, padding=1, bias=False), nn.BatchNorm2d(TOKEN_DIM), nn.ReLU(inplace=True)
        )
        self.head = nn.Conv2d(TOKEN_DIM, 5, 3, padding=1)
        self.pose = nn.Linear(TOKENS * TOKEN_DIM, 9)
        nn.init.normal_(self.head.weight, std=0.01)
        bias = torch.zeros(5)
        bias[0] = torch.logit(torch.tensor(_PRIOR))
        bias[3:] = 12.0 / _SIZE_SCALE
        self.head.bias = nn.Parameter(bias)

    def forward(self, pictures: Tensor) -> Sight:
        """Look at a batch."""
        x = (pictures.permute(0, 3, 1, 2).float() / 255.0 - MEAN) / STD
        fine = self.stage1(self.stem(x.contiguous(memory_format=torch.channels_last)))
        middle = self.stage2(fine)
        coarse = self.to_tokens(self.stage3(middle))
        tokens = coarse.flatten(2).transpose(1, 2)
        merged = self.lateral2(middle) + functional.interpolate(coarse, scale_factor=2.0)
        merged = self.lateral1(fine) + functional.interpolate(merged, scale_factor=2.0)
        out = self.head(self.refine(functional.relu(merged))).float()
        box = torch.cat([out[:, 1:3] * STRIDE, out[:, 3:5] * _SIZE_SCALE], dim=1)
        return Sight(tokens.float(), out[:, 0], box, self.pose(tokens.flatten(1)).float())


class ExportedEyes(nn.Module):
    """What is exported: tokens, confidence of each cell, and box of each cell."""

    def __init__(self, network: EyesNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """picture: (1, 96, 128, 3) uint8; tokens (1, 48, 64), confidence (1, 24, 32), box (1, 4, 24, 32)."""
        sight = self.network(picture)
        return sight.tokens, torch.sigmoid(sight.heat), sight.box


def _lateral(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, TOKEN_DIM, 1, bias=False), nn.BatchNorm2d(TOKEN_DIM))


def example() -> Tensor:
    """A picture of the exported network's shape."""
    return torch.zeros((1, HEIGHT, WIDTH, 3), dtype=torch.uint8)
