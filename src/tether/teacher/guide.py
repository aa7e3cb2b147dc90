"""The guide: keeps the actor near the demonstrations while the critic is still learning to tell choices apart.

A step of gradient descent on the demonstrations' likelihood after each update of the learner (Nair et al. 2018,
arXiv 1709.10089, without their filter: the demonstrator wins). It remembers nothing: what it draws follows from the
number of the update, so a run that goes on from a checkpoint is what it would have been.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tether.config import bounded
from tether.learning.networks import masked_log_probs
from tether.learning.replay import Replay
from tether.learning.sac import Agent


@dataclass(frozen=True)
class GuideConfig:
    """rate: of the gradient descent; max_norm: of its gradient."""

    batch: int = bounded(1, 4096, default=128)
    rate: float = bounded(1e-6, 10.0, default=0.1)
    max_norm: float = bounded(1e-3, 100.0, default=1.0)


class Guide:
    """Call it with the agent after an update."""

    def __init__(self, demos: Replay, config: GuideConfig, seed: int) -> None:
        self._demos, self._config, self._seed = demos, config, seed

    def __call__(self, agent: Agent) -> None:
        """One step of the actor towards the demonstrations: their choices, and the parameters of these."""
        rng = np.random.default_rng((self._seed, agent.updates))
        batch = self._demos.batch(self._demos.rows(rng, self._config.batch))
        out = agent.actor(agent.normalised(batch.obs))
        owned = batch.choice @ torch.tensor(agent.space.owner)
        unlikely = -(masked_log_probs(out.logits, batch.mask) * batch.choice).sum(dim=-1)
        off = ((torch.tanh(out.mean) - batch.params).square() * owned).sum(dim=-1)
        weights = list(agent.actor.parameters())
        slopes = torch.autograd.grad((unlikely + off).mean(), weights)
        norm = float(torch.sqrt(sum((slope.square().sum() for slope in slopes), torch.zeros(()))))
        step = self._config.rate * min(1.0, self._config.max_norm / max(norm, 1e-9))
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(slope, alpha=step)
