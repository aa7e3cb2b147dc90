"""Old Gym environments are taken as they are, without gym."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs the `train` extra")
from gymnasium import spaces

from tether.errors import InvalidInputError
from tether.learning.adapters import LegacyEnv, lent_gym, make_environment, modern_space
from tether.learning.spaces import HybridSpace, ObservationSpace

OLD_ENVIRONMENT = """
import numpy as np
import gym
from gym import spaces, error, utils
from gym.utils import seeding
from gym.envs.registration import register

register(id="Old-v0", entry_point="old:OldEnv")


class OldEnv(gym.Env):
    def __init__(self):
        self.action_space = spaces.Tuple((
            spaces.Discrete(2),
            spaces.Tuple((spaces.Box(np.array([0]), np.array([30]), dtype=np.float32),
                          spaces.Box(np.array([-1, -1]), np.array([1, 1]), dtype=np.float32))),
        ))
        box = spaces.Box(0.0, 1.0, shape=(1,), dtype=np.float32)
        self.observation_space = spaces.Tuple((box, spaces.Discrete(200)))
        self.seed()

    def seed(self, seed=None):
        self.np_random, seed = seeding.np_random(seed)
        return [seed]

    def reset(self):
        return np.array([self.np_random.random_sample()]), 0

    def step(self, action):
        self.got = action
        return (np.array([0.5]), 3), float(action[1][action[0]][0]), action[0] == 1, {}
"""


@pytest.fixture
def old_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "tether_old_environment.py").write_text(OLD_ENVIRONMENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    with lent_gym():
        import tether_old_environment  # type: ignore[import-not-found]
    monkeypatch.delitem(sys.modules, "tether_old_environment")
    return tether_old_environment.OldEnv()


def test_an_old_environment_plays_episodes(old_env: Any) -> None:
    env = LegacyEnv(old_env, max_steps=3, succeeded=lambda reward: reward > 0.5)
    space = HybridSpace.of(env.action_space)
    assert space.sizes == (1, 2) and ObservationSpace.of(env.observation_space).size == 1
    first, info = env.reset(seed=5)
    assert first.shape == (1,) and info == {}
    assert np.array_equal(env.reset(seed=5)[0], first) and not np.array_equal(env.reset(seed=6)[0], first)
    run = space.for_env(space.from_unit(0, np.array([1.0, 0.0, 0.0], dtype=np.float32)))
    _, reward, terminated, truncated, info = env.step(run)
    assert (reward, terminated, truncated, info) == (30.0, False, False, {})
    win = space.for_env(space.from_unit(1, np.array([0.0, 1.0, 0.0], dtype=np.float32)))
    _, reward, terminated, truncated, info = env.step(win)
    assert (reward, terminated, truncated, info) == (1.0, True, False, {"is_success": True})


def test_long_episodes_are_truncated_not_ended(old_env: Any) -> None:
    env = LegacyEnv(old_env, max_steps=2, succeeded=lambda reward: True)
    env.reset(seed=0)
    run = (0, (np.array([1.0]), np.zeros(2)))
    assert env.step(run)[2:] == (False, False, {})
    assert env.step(run)[2:] == (False, True, {"is_success": False})


def test_gym_is_lent_only_while_importing() -> None:
    pytest.importorskip("gymnasium")
    if "gym" in sys.modules:
        pytest.skip("gym itself is installed and imported here")
    with lent_gym():
        import gym  # type: ignore[import-not-found]

        assert gym.spaces is spaces
    assert "gym" not in sys.modules and "gym.spaces" not in sys.modules


def test_spaces_that_are_none_of_the_usual_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="expected Box"):
        modern_space(object())


@pytest.mark.parametrize("name", ["nowhere:make", "just_a_name", "json:nothing", "platform"])
def test_an_environment_that_is_not_there_is_refused_with_a_fix(name: str) -> None:
    with pytest.raises(InvalidInputError, match="environment"):
        make_environment(name, [])


def test_factory_that_makes_no_environment_is_refused_with_what_it_lacks() -> None:
    make = make_environment("os:getcwd", [])
    with pytest.raises(InvalidInputError, match="made a str without action_space, observation_space, reset, step"):
        make()
