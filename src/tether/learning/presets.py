"""Settings for the public environments with which both reach their bars (docs/learning.md)."""

from __future__ import annotations

from dataclasses import replace

from tether.learning.config import Exploration, Normalise, SacConfig, TrainConfig

_SAC = SacConfig(
    hidden=(128, 128),
    critic_hidden=(128,),
    branch_width=64,
    actor_rate=1e-3,
    critic_rate=2e-3,
    polyak=0.02,
    choice_entropy=(0.3, 0.02),
    param_entropy=(-0.3, -2.0),
    param_spread=0.5,
)

PRESETS: dict[str, TrainConfig] = {
    "platform": TrainConfig(
        sac=_SAC,
        steps=15_000,
        warmup_steps=1000,
        updates_per_step=0.5,
        batch=128,
        replay=100_000,
        exploration=Exploration.HOLD,
        hold_probability=(0.2, 0.05),
        hold_max=1,
        anneal_steps=10_000,
        evaluate_every=1500,
        evaluate_episodes=100,
        checkpoint_every=1500,
    ),
    "goal": TrainConfig(
        sac=replace(_SAC, discount=0.98, normalise=Normalise.BOUNDS, reward_scale=0.02),
        steps=60_000,
        warmup_steps=2000,
        updates_per_step=0.5,
        batch=128,
        replay=200_000,
        exploration=Exploration.HOLD,
        hold_probability=(0.2, 0.05),
        hold_max=1,
        anneal_steps=40_000,
        evaluate_every=5000,
        evaluate_episodes=200,
        checkpoint_every=5000,
    ),
}
"""For the public environments known by name. Any other environment starts from TrainConfig()."""
