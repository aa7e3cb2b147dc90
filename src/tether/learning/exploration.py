"""Choosing actions while training: random warm-up, the policy's own randomness, and random actions that are held.

Dabney et al. 2020 (Temporally-Extended ε-Greedy Exploration, arXiv 2006.01782): with a small probability a random
action is taken and kept for n decisions, n from a zeta law. Choices that matter only when held for long (a primitive
of a robot) are otherwise hardly ever tried.
"""

from __future__ import annotations

import numpy as np

from tether.contracts import F32
from tether.learning.config import Exploration, TrainConfig
from tether.learning.sac import Agent
from tether.learning.spaces import Bool, HybridSpace


class Explorer:
    """Draws the actions of training. Holds nothing from one episode to the next: call `begin_episode`."""

    def __init__(self, space: HybridSpace, config: TrainConfig, rng: np.random.Generator) -> None:
        self._space, self._config, self._rng = space, config, rng
        self._held: tuple[int, F32] | None = None
        self._left = 0

    def begin_episode(self) -> None:
        """Let go of what is held."""
        self._held, self._left = None, 0

    def choose(self, agent: Agent, obs: F32, mask: Bool, step: int, annealed: float) -> tuple[int, F32]:
        """Choice and flat parameters (P,) in [-1, 1] for decision `step` of the run."""
        if self._held is not None and self._left > 0 and mask[self._held[0]]:
            self._left -= 1
            return self._held
        self._held = None
        if step < self._config.warmup_steps:
            return self._random(mask)
        if self._config.exploration is Exploration.HOLD:
            first, last = self._config.hold_probability
            if self._rng.random() < first + (last - first) * annealed:
                self._held = self._random(mask)
                self._left = min(int(self._rng.zipf(self._config.hold_exponent)), self._config.hold_max) - 1
                return self._held
        return agent.act_unit(obs, deterministic=False, mask=mask)

    def _random(self, mask: Bool) -> tuple[int, F32]:
        """A valid choice and its parameters, uniform."""
        choice = int(self._rng.choice(np.flatnonzero(mask)))
        z = self._rng.uniform(-1.0, 1.0, self._space.n_params).astype(np.float32) * self._space.owner[choice]
        return choice, z
