"""The networks of the alternatives and how they are trained. Needs torch, as training does.

Codebook: k-means prototypes of the parameters (Lloyd 1982, with k-means++ starts, Arthur and Vassilvitskii 2007) and a
linear softmax classifier that picks one by the state. Diffusion: a denoising network of the parameters given the state
(DDPM, Ho et al. 2020, arXiv 2006.11239, with the cosine schedule of Nichol and Dhariwal 2021, arXiv 2102.09672), run by
a few deterministic steps (DDIM, Song et al. 2021, arXiv 2010.02502), as a policy's head (Chi et al. 2023,
arXiv 2303.04137).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from tether.alternatives.collect import Decisions
from tether.config import bounded
from tether.contracts import F32

_FLAT = 0.002
"""Least deviation that a column is scaled by: of parameters that hardly vary, noise is not blown up."""
_LEVELS = 100
"""Noise levels of the diffusion."""
_CLIP = 3.0
"""Of the denoised parameters, in deviations of the training data."""
_TIME = 16


@dataclass(frozen=True)
class CodebookConfig:
    """prototypes: clusters at most; steps, rate: of the classifier's gradient descent over all data at once."""

    prototypes: int = bounded(1, 1024, default=64)
    steps: int = bounded(1, 100_000, default=800)
    rate: float = bounded(1e-6, 1.0, default=0.05)


@dataclass(frozen=True)
class DiffusionConfig:
    """width: of the two hidden layers. ddim_steps: of a call. steps, batch, rate: of training with Adam."""

    width: int = bounded(4, 1024, default=64)
    ddim_steps: int = bounded(1, _LEVELS, default=8)
    steps: int = bounded(1, 1_000_000, default=4000)
    batch: int = bounded(1, 65_536, default=128)
    rate: float = bounded(1e-6, 1.0, default=1e-3)


class Scale(nn.Module):
    """(x - mean) / std per column."""

    mean: Tensor
    std: Tensor

    def __init__(self, data: F32) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(data.mean(axis=0)))
        self.register_buffer("std", torch.from_numpy(np.maximum(data.std(axis=0), _FLAT).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = (x - self.mean) / self.std
        return y

    def back(self, y: Tensor) -> Tensor:
        """The inverse."""
        return y * self.std + self.mean


class StateScale(Scale):
    """The same for states, cut to 5 deviations: far from the data nothing is known."""

    def __init__(self, data: F32) -> None:
        super().__init__(data)
        self.std.copy_(torch.from_numpy(np.maximum(data.std(axis=0), 1e-4).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(-5.0, 5.0)


class Codebook(nn.Module):
    """State (1, SIZE) → one of the prototypes (1, n)."""

    prototypes: Tensor

    def __init__(self, decisions: Decisions, prototypes: F32) -> None:
        super().__init__()
        self.scale = StateScale(decisions.state)
        self.register_buffer("prototypes", torch.from_numpy(prototypes))
        self.logits = nn.Linear(decisions.state.shape[1], len(prototypes))

    def forward(self, state: Tensor) -> Tensor:
        chosen: Tensor = self.prototypes[self.logits(self.scale(state)).argmax(dim=1)]
        return chosen


def train_codebook(decisions: Decisions, config: CodebookConfig, seed: int) -> Codebook:
    """Prototypes, then the classifier that tells them from the state."""
    scale = Scale(decisions.params)
    scaled = scale(torch.from_numpy(decisions.params)).numpy().astype(np.float64)
    k = min(config.prototypes, len(np.unique(scaled, axis=0)))
    centres, labels = kmeans2(scaled, k, iter=50, minit="++", missing="warn", seed=seed)
    used, labels = np.unique(labels, return_inverse=True)
    prototypes = scale.back(torch.from_numpy(centres[used].astype(np.float32))).numpy()
    torch.manual_seed(seed)
    network = Codebook(decisions, prototypes)
    with torch.no_grad():
        state = network.scale(torch.from_numpy(decisions.state))
    target = torch.from_numpy(labels.astype(np.int64))
    optimiser = torch.optim.Adam(network.logits.parameters(), lr=config.rate)
    for _ in range(config.steps):
        optimiser.zero_grad()
        loss: Any = nn.functional.cross_entropy(network.logits(state), target)
        loss.backward()
        optimiser.step()
    return network.eval()


class Diffusion(nn.Module):
    """State (1, SIZE) and noise (1, n) → parameters (1, n) by DDIM without randomness of its own (eta = 0)."""

    alpha_bar: Tensor

    def __init__(self, decisions: Decisions, config: DiffusionConfig) -> None:
        super().__init__()
        self.scale, self.params = StateScale(decisions.state), Scale(decisions.params)
        n = decisions.params.shape[1]
        self.body = nn.Sequential(
            nn.Linear(decisions.state.shape[1] + n + _TIME, config.width),
            nn.SiLU(),
            nn.Linear(config.width, config.width),
            nn.SiLU(),
            nn.Linear(config.width, n),
        )
        self.register_buffer("alpha_bar", _cosine(_LEVELS))
        self.levels = [round(t) for t in np.linspace(_LEVELS - 1, 0, config.ddim_steps)]

    def noise_in(self, noisy: Tensor, state: Tensor, level: Tensor) -> Tensor:
        """The noise (B, n) that the network takes noisy parameters (B, n) at level (B,) to hold; state is scaled."""
        guess: Tensor = self.body(torch.cat((noisy, state, _embedded(level)), dim=1))
        return guess

    def forward(self, state: Tensor, noise: Tensor) -> Tensor:
        seen, z = self.scale(state), noise
        for level, after in zip(self.levels, [*self.levels[1:], None], strict=True):
            kept = float(self.alpha_bar[level])
            guess = self.noise_in(z, seen, torch.full((state.shape[0],), float(level)))
            clean = ((z - math.sqrt(1.0 - kept) * guess) / math.sqrt(kept)).clamp(-_CLIP, _CLIP)
            if after is None:
                return self.params.back(clean)
            guess = (z - math.sqrt(kept) * clean) / math.sqrt(1.0 - kept)
            next_kept = float(self.alpha_bar[after])
            z = math.sqrt(next_kept) * clean + math.sqrt(1.0 - next_kept) * guess
        raise AssertionError("there is a last level")


def train_diffusion(decisions: Decisions, config: DiffusionConfig, seed: int) -> Diffusion:
    """Least squares on the noise at random levels."""
    torch.manual_seed(seed)
    network = Diffusion(decisions, config)
    with torch.no_grad():
        state = network.scale(torch.from_numpy(decisions.state))
        clean = network.params(torch.from_numpy(decisions.params))
    optimiser = torch.optim.Adam(network.body.parameters(), lr=config.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
    for _ in range(config.steps):
        rows = torch.randint(len(clean), (config.batch,))
        level = torch.randint(_LEVELS, (config.batch,))
        noise = torch.randn(config.batch, clean.shape[1])
        kept = network.alpha_bar[level][:, None]
        noisy = kept.sqrt() * clean[rows] + (1.0 - kept).sqrt() * noise
        optimiser.zero_grad()
        loss: Any = (network.noise_in(noisy, state[rows], level.float()) - noise).square().mean()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def _cosine(levels: int) -> Tensor:
    """(levels,) share of the signal's variance that is left at each level."""
    t = torch.linspace(0.0, 1.0, levels + 1, dtype=torch.float64)
    share = torch.cos((t + 0.008) / 1.008 * math.pi / 2.0).square()
    return (share[1:] / share[0]).clamp(min=1e-3).float()


def _embedded(level: Tensor) -> Tensor:
    """(B, _TIME) sines and cosines of the level, as in Ho et al."""
    rates = torch.exp(-math.log(1000.0) * torch.arange(_TIME // 2) / (_TIME // 2 - 1))
    angles = level[:, None] * rates[None]
    return torch.cat((angles.sin(), angles.cos()), dim=1)
