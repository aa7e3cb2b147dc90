"""Training of the teacher: hybrid SAC on sparse subgoals, with the scripted oracle's demonstrations in the replay.

Ball et al. 2023 (RLPD, arXiv 2302.02948): half of each batch comes from demonstrations, the rest from what the policy
did itself. The actor is guided by the demonstrations as well (`tether.teacher.guide`). One network learns both tasks,
from fresh starts and from where retries begin. The loop itself is `tether.learning.train.learn`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tether.config import bounded
from tether.learning.config import SacConfig, TrainConfig
from tether.learning.replay import Replay
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace
from tether.learning.train import BEST, learn
from tether.progress import Progress
from tether.teacher.demos import Demonstrations, demonstrate
from tether.teacher.env import EnvConfig, TeacherEnv
from tether.teacher.guide import Guide, GuideConfig
from tether.teacher.starts import Start

EVALUATION_SEED = 20_000_000
"""First of the fixed seeds that a trained policy is scored on; `tether eval` counts from where it is told."""
JOINED, SINGLE = "demos.npz", "demos_single.npz"

LEARNING = TrainConfig(
    sac=SacConfig(
        hidden=(128, 128),
        critic_hidden=(128,),
        branch_width=64,
        choice_entropy=(0.1, 0.02),
        param_entropy=(-0.5, -2.0),
        temperature_init=0.01,
        discount=0.95,
        actor_period=2,
    ),
    steps=4_000,
    warmup_steps=200,
    updates_per_step=2.0,
    batch=128,
    n_step=2,
    replay=30_000,
    anneal_steps=3_000,
    evaluate_every=500,
    evaluate_episodes=30,
    checkpoint_every=500,
)
GUIDE = GuideConfig()
ENV = EnvConfig(hold=(2, 6), decisions_max=160)
"""A choice is kept for 0.1 to 0.3 s while learning: one that lasts 50 ms makes next to no difference to what follows,
and a critic that cannot tell choices apart lets the policy dither. Evaluation and run time decide every 50 ms."""


@dataclass(frozen=True)
class TeacherConfig:
    """A run. demo_episodes: of the scripted oracle; minutes: wall time after which a sitting stops by itself."""

    env: EnvConfig = ENV
    learning: TrainConfig = LEARNING
    guide: GuideConfig = GUIDE
    demo_episodes: int = bounded(1, 100_000, default=120)
    minutes: float = bounded(0.01, 100_000.0, default=45.0, unit="min")
    seed: int = bounded(0, 1_000_000, default=0)


def train(folder: Path, config: TeacherConfig, progress: bool = True) -> Agent:
    """Train, or go on training, in `folder`; the agent that was best in the periodic evaluations."""
    folder.mkdir(parents=True, exist_ok=True)
    demos = demonstrations(folder, config)
    until_s = time.monotonic() + 60.0 * config.minutes
    environments = iter((config.env, _as_run(config.env)))  # to learn in, then to be evaluated in
    agent = learn(
        lambda: TeacherEnv(next(environments)),
        config.learning,
        folder,
        config.seed,
        demos.joined,
        progress,
        stop=lambda: time.monotonic() > until_s,
        guide=Guide(demos.single, config.guide, config.seed),
    )
    return Agent.load(folder / BEST) if (folder / BEST).exists() else agent


def demonstrations(folder: Path, config: TeacherConfig) -> Demonstrations:
    """The run's demonstrations; made once, then read from `folder`."""
    if (folder / JOINED).exists() and (folder / SINGLE).exists():
        return Demonstrations(Replay.load(folder / JOINED), Replay.load(folder / SINGLE))
    env = TeacherEnv(_as_run(config.env))
    space = HybridSpace.of(env.action_space)
    learning = config.learning
    demos = demonstrate(env, space, config.demo_episodes, config.env.hold, learning.sac.discount, learning.n_step)
    env.close()
    demos.joined.save(folder / JOINED)
    demos.single.save(folder / SINGLE)
    return demos


def score(agent: Agent, config: EnvConfig, episodes: int) -> Mapping[str, float]:
    """Share of `episodes` that the policy wins without its randomness, for each task and kind of start.

    Keys are `pick, fresh` and so on; seeds are fixed.
    """
    env = TeacherEnv(_as_run(config))
    progress = Progress(len(config.tasks) * len(Start) * episodes, "episodes of the final evaluation")
    found: dict[str, float] = {}
    for task in config.tasks:
        for start in Start:
            won = []
            for i in range(episodes):
                won.append(_won(agent, env, EVALUATION_SEED + i, task, start))
                progress.step()
            found[f"{task}, {start.value}"] = float(np.mean(won))
    env.close()
    return found


def _as_run(config: EnvConfig) -> EnvConfig:
    """The environment with a decision every 50 ms and nothing cut short."""
    return dataclasses.replace(config, hold=(1, 1), decisions_max=None)


def _won(agent: Agent, env: TeacherEnv, seed: int, task: str, start: Start) -> bool:
    observation, info = env.reset(seed=seed, options={"task": task, "start": start})
    while "is_success" not in info:
        action = agent.act(observation, deterministic=True, mask=info["action_mask"])
        observation, _, _, _, info = env.step(agent.space.for_env(action))
    return bool(info["is_success"])
