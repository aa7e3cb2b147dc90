"""Demonstrations: the scripted oracle in the teacher's environment, from fresh starts and from where retries begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tether.assembly import robot, skills
from tether.contracts import F32
from tether.learning.replay import EpisodeWriter, Replay
from tether.learning.spaces import HybridSpace
from tether.policy.scripted import ScriptedPolicy
from tether.progress import Progress
from tether.teacher.actions import PRIMITIVES
from tether.teacher.env import TeacherEnv
from tether.teacher.observation import SIZE

FIRST_SEED = 30_000_000
"""Of the demonstrations' episodes, far from those of training and of evaluations."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """joined: transitions over holds, for the critic. single: every decision, for the guide of the actor."""

    joined: Replay
    single: Replay


def demonstrate(
    env: TeacherEnv, space: HybridSpace, episodes: int, hold: tuple[int, int], discount: float, n_step: int
) -> Demonstrations:
    """`episodes` of the script in an environment of single decisions; those that it does not win are left out.

    hold: a joined transition is over so many decisions (drawn), or fewer where the script chose another primitive.
    """
    policy = ScriptedPolicy(robot(), skills())
    progress = Progress(episodes, "demonstrations")
    rng = np.random.default_rng(FIRST_SEED)
    joined: list[_Step] = []
    single: list[_Step] = []
    for seed in range(episodes):
        steps = _episode(env, space, policy, FIRST_SEED + seed)
        single += steps
        joined += _joined(steps, hold, rng)
        progress.step()
    return Demonstrations(_replay(joined, space, discount, n_step), _replay(single, space, discount, 1))


def _replay(steps: Sequence[_Step], space: HybridSpace, discount: float, n_step: int) -> Replay:
    replay = Replay(max(1, len(steps)), SIZE, space.n_choices, space.n_params)
    writer = EpisodeWriter(replay, discount, n_step)
    mask = np.ones(space.n_choices, np.bool_)
    for step in steps:
        writer.add(step.observation, mask, step.choice, step.z, step.reward, step.after, mask, step.over, False)
    return replay


class _Step(NamedTuple):
    observation: F32
    choice: int
    z: F32
    reward: float
    after: F32
    over: bool


def _joined(steps: list[_Step], hold: tuple[int, int], rng: np.random.Generator) -> list[_Step]:
    """Runs of the same choice, cut to lengths that are drawn from `hold`."""
    joined: list[_Step] = []
    left = 0
    for step in steps:
        if left > 0 and joined[-1].choice == step.choice:
            before = joined[-1]
            joined[-1] = before._replace(reward=before.reward + step.reward, after=step.after, over=step.over)
            left -= 1
        else:
            joined.append(step)
            left = int(rng.integers(hold[0], hold[1] + 1)) - 1
    return joined


def _episode(env: TeacherEnv, space: HybridSpace, policy: ScriptedPolicy, seed: int) -> list[_Step]:
    observation, _ = env.reset(seed=seed)
    policy.reset(seed)
    steps: list[_Step] = []
    while True:
        wanted = policy.decide(env.loop.state(), env.loop.truth)
        choice = PRIMITIVES.index(wanted.primitive)
        z = space.to_unit(choice, wanted.params.astype(np.float32))
        after, reward, terminated, truncated, info = env.step(space.for_env(space.from_unit(choice, z)))
        steps.append(_Step(observation, choice, z, reward, after, terminated))
        observation = after
        if terminated or truncated:
            return steps if info["is_success"] else []
