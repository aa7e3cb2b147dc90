"""The exported actor is what torch computes, and the command line does the whole way."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs the `train` extra")
pytest.importorskip("onnxruntime", reason="export is checked by running it")

from tether.learning import cli
from tether.learning.config import SacConfig
from tether.learning.export import expectation, export_actor
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace
from tether.models.session import open_model


def test_the_exported_actor_acts_as_the_agent(make_aim: Callable[..., Any], tmp_path: Path) -> None:
    space = HybridSpace.of(make_aim().action_space)
    agent = Agent(space, 2, SacConfig(hidden=(16,), critic_hidden=(16,), branch_width=8), seed=0)
    export_actor(agent, tmp_path, version="1", seed=0, trained_on={"environment": "aim"}, scores={"mean_return": 0.5})
    session = open_model(tmp_path, expectation(agent))
    assert session.manifest.settings["params of choice_1"] == 1.0
    for obs in np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32):
        mask = np.array([True, True, False])
        wanted = agent.act(obs, deterministic=True, mask=mask)
        got = session.run({"observation": obs[None], "mask": mask[None].astype(np.float32)})
        assert int(got["probabilities"].argmax()) == wanted.choice
        np.testing.assert_allclose(got["params"][0, space.slices[wanted.choice]], wanted.params, atol=1e-5)


CONFIG = """
sac: {hidden: [16], critic_hidden: [16], branch_width: 8}
steps: 60
warmup_steps: 20
batch: 16
evaluate_every: 20
evaluate_episodes: 2
checkpoint_every: 20
"""


def test_the_command_trains_measures_and_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    words = ["--env", "aim_env:AimEnv", "--env-path", str(Path(__file__).parent), "--out", str(tmp_path / "out")]
    words += ["--seeds", "0", "1", "--config", str(tmp_path / "config.yaml"), "--episodes", "3"]
    words += ["--json", str(tmp_path / "result.json"), "--export", str(tmp_path / "model")]
    assert cli.run(parser.parse_args(words)) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["tool"] == "train hybrid" and result["figure"] == "mean_return"
    assert [row["seed"] for row in result["per_seed"]] == [0, 1]
    assert result["mean"] == pytest.approx(np.mean([row["mean_return"] for row in result["per_seed"]]))
    assert (tmp_path / "model" / "manifest.json").exists()
    assert "over 2 seeds" in capsys.readouterr().out
