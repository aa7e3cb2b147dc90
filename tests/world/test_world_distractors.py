"""Distractors lie apart, change with the seed, and leave every task without them as it was."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tether.assembly import make_world, task
from tether.contracts import EpisodeSpec
from tether.errors import InvalidInputError
from tether.world.distractors import scattered
from tether.world.streams import Draw, generator


@pytest.mark.parametrize("seed", range(20))
def test_distractors_lie_apart_from_the_cube_and_from_each_other(seed: int) -> None:
    specs = task("fetch").distractors
    cube = np.array([0.245, 0.03])
    drawn = scattered(specs, range(len(specs)), cube, generator(seed, Draw.DISTRACTORS))
    places = [cube.tolist()] + [[x, y] for _, (x, y, _), _ in drawn]
    pairs = [(a, b) for i, a in enumerate(places) for b in places[i + 1 :]]
    assert len(places) == 4
    assert all(math.dist(a, b) >= 0.06 for a, b in pairs)


def test_a_task_without_room_for_its_distractors_is_refused() -> None:
    specs = task("fetch").distractors * 30
    with pytest.raises(InvalidInputError, match="no room"):
        list(scattered(specs, range(len(specs)), np.zeros(2), generator(0, Draw.DISTRACTORS)))


def test_the_world_of_fetch_holds_three_cubes_beside_the_tasks_own() -> None:
    world = make_world("fetch", "ideal", truth_age_ns=None, pictures=False)
    world.reset(EpisodeSpec("fetch", "ideal", 5))
    places = [world.data.qpos[at : at + 2].copy() for at in world.index.distractor_qpos]
    world.reset(EpisodeSpec("fetch", "ideal", 6))
    others = [world.data.qpos[at : at + 2].copy() for at in world.index.distractor_qpos]
    assert len(places) == 3
    assert not np.array_equal(places, others)


def test_hashes_of_tasks_without_distractors_are_those_they_had() -> None:
    assert task("pick").sha256 == "3d05e8872e560339d5f16b6757f9de644f08c2e68a37660b6f9e524df0c6f2d5"
