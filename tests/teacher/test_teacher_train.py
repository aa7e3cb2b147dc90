"""Training of the teacher: demonstrations, the guide, and a run that goes on where it stopped."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tether.assembly import skills
from tether.learning.config import SacConfig
from tether.learning.replay import Replay
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace
from tether.learning.train import LAST
from tether.rewards.build import reward_config
from tether.teacher.demos import Demonstrations, demonstrate
from tether.teacher.env import EnvConfig, TeacherEnv
from tether.teacher.export import export_teacher
from tether.teacher.guide import Guide, GuideConfig
from tether.teacher.observation import SIZE
from tether.teacher.train import LEARNING, TeacherConfig, train

torch.set_num_threads(1)
SMALL = SacConfig(hidden=(32,), critic_hidden=(32,), branch_width=16, discount=1.0)


@pytest.fixture(scope="module")
def env() -> TeacherEnv:
    return TeacherEnv(EnvConfig(tasks=("pick",), retry_share=0.0))


@pytest.fixture(scope="module")
def demos(env: TeacherEnv) -> Demonstrations:
    return demonstrate(env, HybridSpace.of(env.action_space), 1, hold=(3, 3), discount=1.0, n_step=1)


def rewards_of(replay: Replay) -> np.ndarray:
    return np.asarray(replay.batch(replay.state()["table"]).reward)


def test_joined_demonstrations_are_fewer_and_pay_the_same(demos: Demonstrations) -> None:
    total = reward_config().value.total
    assert rewards_of(demos.single).sum() == pytest.approx(total)
    assert rewards_of(demos.joined).sum() == pytest.approx(total)
    assert len(demos.single) / 3 <= len(demos.joined) < len(demos.single) / 2


def test_the_guide_makes_the_demonstrated_choices_likely_and_remembers_nothing(demos: Demonstrations) -> None:
    env = TeacherEnv(EnvConfig(tasks=("pick",)))
    space = HybridSpace.of(env.action_space)
    runs = []
    for _ in range(2):
        agent = Agent(space, SIZE, SMALL, seed=0)
        guide = Guide(demos.single, GuideConfig(batch=32, rate=0.3), seed=0)
        batch = demos.single.batch(demos.single.state()["table"])
        before = agree(agent, batch)
        for _ in range(150):
            guide(agent)
            agent._updates += 1  # what it draws follows from the number of the update
        assert agree(agent, batch) > max(0.9, before)
        runs.append(agent.actor.state_dict())
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


def agree(agent: Agent, batch: object) -> float:
    with torch.no_grad():
        out = agent.actor(batch.obs)  # type: ignore[attr-defined]
        return float((out.logits.argmax(dim=-1) == batch.choice.argmax(dim=-1)).float().mean())  # type: ignore[attr-defined]


def newest(folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the actor that a run in `folder` has arrived at."""
    return dict(Agent.load(folder / LAST).actor.state_dict())


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_learns_goes_on_is_scored_and_exported(tmp_path: Path) -> None:
    learning = dataclasses.replace(
        LEARNING, sac=SMALL, steps=12, warmup_steps=4, batch=8, replay=200, evaluate_episodes=2, checkpoint_every=6
    )
    env = EnvConfig(tasks=("pick",), retry_share=0.0, hold=(6, 6), decisions_max=36)
    config = TeacherConfig(env=env, learning=learning, demo_episodes=1)
    train(tmp_path, config, progress=False)
    early = newest(tmp_path)
    longer = dataclasses.replace(config, learning=dataclasses.replace(learning, steps=18))
    best = train(tmp_path, longer, progress=False)
    train(tmp_path / "other", longer, progress=False)
    assert not same(newest(tmp_path), early)
    assert same(newest(tmp_path), newest(tmp_path / "other"))
    session = export_teacher(tmp_path / "model", best, skills(), version="0", seed=0, trained_on={}, scores={})
    assert session.manifest.kind == "teacher"
