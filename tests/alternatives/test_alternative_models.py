"""Codebook and diffusion head: what they learn, and which models are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from alternative_data import decisions

from tether.alternatives.collect import Decisions
from tether.alternatives.models import Kind, open_alternative
from tether.alternatives.train import split
from tether.assembly import skills
from tether.contracts import Primitive
from tether.errors import InvalidInputError
from tether.models.errors import ModelRefusedError

REACH = Primitive.REACH


@pytest.mark.parametrize("kind", list(Kind))
def test_a_reach_follows_the_cube(trained: tuple[Path, dict], kind: Kind) -> None:
    figures = trained[1]["reach"]["by"]
    assert figures[kind.value]["error"] < 0.5 * figures["mean"]["error"]


def test_a_codebook_gives_prototypes_and_takes_no_noise(trained: tuple[Path, dict]) -> None:
    codebook = open_alternative(trained[0], Kind.CODEBOOK, REACH, skills())
    given = {codebook.scaled(state, np.ones(5, np.float32)).tobytes() for state in decisions(REACH).state}
    assert 2 < len(given) <= 24
    state = decisions(REACH).state[0]
    assert np.array_equal(
        codebook.scaled(state, np.zeros(5, np.float32)), codebook.scaled(state, np.ones(5, np.float32))
    )


def test_a_diffusion_head_draws_by_its_noise_and_repeats_itself(trained: tuple[Path, dict]) -> None:
    head = open_alternative(trained[0], Kind.DIFFUSION, REACH, skills())
    state = decisions(REACH).state[0]
    first, again = (head.scaled(state, np.full(5, 0.3, np.float32)) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, head.scaled(state, np.full(5, -0.3, np.float32)))


def test_a_model_of_another_state_is_refused(trained: tuple[Path, dict], tmp_path: Path) -> None:
    shutil.copytree(trained[0], tmp_path / "models")
    path = tmp_path / "models" / "codebook" / "reach" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["trained_on"]["state_sha256"] = "of another time"
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelRefusedError, match="state_sha256"):
        open_alternative(tmp_path / "models", Kind.CODEBOOK, REACH, skills())


def test_whole_episodes_are_held_out() -> None:
    seen, held = split(decisions(REACH))
    assert set(seen.episode) == set(range(8)) and set(held.episode) == {8, 9}


def test_one_episode_is_too_few_to_hold_one_out() -> None:
    all_of = decisions(REACH)
    one = Decisions(all_of.state, all_of.params, np.zeros_like(all_of.episode))
    with pytest.raises(InvalidInputError, match="2 or more"):
        split(one)
