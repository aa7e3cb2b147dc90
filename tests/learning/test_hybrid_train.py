"""The loop: it solves a task that needs the right choice and the right parameter, and goes on bit for bit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs the `train` extra")

from tether.cli import main
from tether.errors import InvalidInputError
from tether.learning import arrays as files
from tether.learning.config import ChoiceGradient, Exploration, Normalise, SacConfig, TrainConfig
from tether.learning.evaluate import evaluate
from tether.learning.replay import EpisodeWriter, demonstrations
from tether.learning.spaces import HybridSpace
from tether.learning.train import CHECKPOINT, learn

SAC = SacConfig(
    hidden=(64, 64),
    critic_hidden=(64,),
    branch_width=32,
    actor_rate=1e-3,
    critic_rate=2e-3,
    temperature_rate=1e-3,
    polyak=0.02,
    discount=0.95,
    choice_entropy=(0.5, 0.05),
    param_entropy=(-0.3, -2.0),
)
SOLVE = TrainConfig(
    sac=SAC,
    steps=2500,
    warmup_steps=300,
    batch=64,
    replay=5000,
    anneal_steps=1500,
    evaluate_every=100_000,
    checkpoint_every=100_000,
)
SHORT = dataclasses.replace(
    SOLVE,
    sac=dataclasses.replace(SAC, hidden=(16,), critic_hidden=(16,), branch_width=8, actor_period=2),
    steps=120,
    warmup_steps=30,
    batch=16,
    n_step=2,
    exploration=Exploration.HOLD,
    evaluate_every=40,
    evaluate_episodes=3,
    checkpoint_every=40,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gradient", "masked"),
    [(ChoiceGradient.EXACT, False), (ChoiceGradient.EXACT, True), (ChoiceGradient.GUMBEL, True)],
    ids=["exact", "exact, mask", "gumbel, mask"],
)
def test_it_finds_the_right_choice_and_parameter(
    gradient: ChoiceGradient, masked: bool, make_aim: Callable[..., Any], tmp_path: Path
) -> None:
    """Gumbel without the mask is not among them: it mostly settles on stopping at once (docs/learning.md)."""
    config = dataclasses.replace(SOLVE, sac=dataclasses.replace(SAC, choice_gradient=gradient))
    agent = learn(lambda: make_aim(masked), config, tmp_path, seed=1, progress=False)
    scores = evaluate(agent, make_aim(masked), 50, seed=1, stream=7)
    assert scores.mean_return > 0.75, "the best is about 0.93; stopping at once gives 0.1"


def _final(folder: Path) -> dict[str, Any]:
    state, meta = files.load(folder / CHECKPOINT)
    return {**{name: value.tobytes() for name, value in state.items()}, **meta}


@pytest.mark.parametrize("normalise", [Normalise.NONE, Normalise.BOUNDS, Normalise.WARMUP])
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(
    normalise: Normalise, make_aim: Callable[..., Any], tmp_path: Path
) -> None:
    config = dataclasses.replace(SHORT, sac=dataclasses.replace(SHORT.sac, normalise=normalise))
    learn(make_aim, config, tmp_path / "whole", seed=3, progress=False)
    asked = iter(range(1000))
    learn(make_aim, config, tmp_path / "parts", seed=3, progress=False, stop=lambda: next(asked) >= 13)
    assert files.load(tmp_path / "parts" / CHECKPOINT)[1]["step"] < config.steps
    learn(make_aim, config, tmp_path / "parts", seed=3, progress=False)
    whole, parts = _final(tmp_path / "whole"), _final(tmp_path / "parts")
    assert {name for name in whole if whole[name] != parts.get(name)} == set()
    history = json.loads((tmp_path / "parts" / "history.json").read_text())
    assert history == whole["history"] and len(history) >= 2


def test_another_seed_is_another_run(make_aim: Callable[..., Any], tmp_path: Path) -> None:
    for seed in (3, 4):
        learn(make_aim, SHORT, tmp_path / str(seed), seed=seed, progress=False)
    assert _final(tmp_path / "3")["replay/table"] != _final(tmp_path / "4")["replay/table"]


def test_a_checkpoint_of_another_run_is_refused(make_aim: Callable[..., Any], tmp_path: Path) -> None:
    learn(make_aim, dataclasses.replace(SHORT, steps=40), tmp_path, seed=3, progress=False)
    with pytest.raises(InvalidInputError, match="seed"):
        learn(make_aim, SHORT, tmp_path, seed=4, progress=False)
    with pytest.raises(InvalidInputError, match="config"):
        learn(make_aim, dataclasses.replace(SHORT, batch=32), tmp_path, seed=3, progress=False)


def test_a_run_can_be_prolonged(make_aim: Callable[..., Any], tmp_path: Path) -> None:
    learn(make_aim, dataclasses.replace(SHORT, steps=40), tmp_path, seed=3, progress=False)
    learn(make_aim, SHORT, tmp_path, seed=3, progress=False)
    assert files.load(tmp_path / CHECKPOINT)[1]["step"] >= SHORT.steps


def test_demonstrations_stand_in_half_of_every_batch(make_aim: Callable[..., Any], tmp_path: Path) -> None:
    env = make_aim()
    space = HybridSpace.of(env.action_space)
    demos = demonstrations(space, 100, obs_size=2)
    writer = EpisodeWriter(demos, SHORT.sac.discount, SHORT.n_step)
    obs, _ = env.reset(seed=0)
    everything = np.ones(3, dtype=np.bool_)
    move = space.to_unit(0, np.array([obs[1]], dtype=np.float32))
    after, reward, *_ = env.step(space.for_env(space.from_unit(0, move)))
    writer.add(obs, everything, 0, move, reward, after, everything, False, False)
    shot = space.to_unit(1, np.array([1.0 + 0.6 * obs[1]], dtype=np.float32))
    last, reward, *_ = env.step(space.for_env(space.from_unit(1, shot)))
    assert reward == pytest.approx(1.0, abs=1e-5)
    writer.add(after, everything, 1, shot, reward, last, everything, True, False)
    learn(make_aim, SHORT, tmp_path, seed=0, demos=demos, progress=False)
    with pytest.raises(InvalidInputError, match="demos"):
        learn(make_aim, SHORT, tmp_path, seed=0, progress=False)


def test_refused_environment_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "hybrid", "--env", "nowhere", "--out", str(tmp_path / "run")]) == 2
    assert "'nowhere'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
