"""Playing a policy without its randomness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from tether.learning.sac import Agent
from tether.learning.spaces import ObservationSpace

Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class Scores:
    """Of each episode: return, decisions, and success where the environment says `is_success` at the end, else None."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool, ...] | None

    @property
    def mean_return(self) -> float:
        """Over all episodes."""
        return float(np.mean(self.returns))

    @property
    def success_rate(self) -> float | None:
        """Share of episodes, None where the environment does not say."""
        return None if self.successes is None else float(np.mean(self.successes))

    @property
    def figure(self) -> float:
        """What policies are compared by: success where there is one, else return."""
        rate = self.success_rate
        return self.mean_return if rate is None else rate


def episode_seed(seed: int, stream: int, episode: int) -> int:
    """Seed of an episode's reset: every (seed, stream, episode) its own."""
    return int(np.random.SeedSequence((seed, stream, episode)).generate_state(1)[0])


def evaluate(agent: Agent, env: Env, episodes: int, seed: int, stream: int) -> Scores:
    """Play `episodes` with the likeliest choice and the middle of its parameters."""
    observations = ObservationSpace.of(env.observation_space)
    returns, lengths, successes = [], [], []
    for episode in range(episodes):
        raw, info = env.reset(seed=episode_seed(seed, stream, episode))
        total, length, over = 0.0, 0, False
        while not over:
            obs, mask = observations.read(raw, info, agent.space.n_choices)
            action = agent.act(obs, deterministic=True, mask=mask)
            raw, reward, terminated, truncated, info = env.step(agent.space.for_env(action))
            total, length, over = total + float(reward), length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
        if "is_success" in info:
            successes.append(bool(info["is_success"]))
    return Scores(tuple(returns), tuple(lengths), tuple(successes) if len(successes) == episodes else None)
