"""Environments of the old Gym interface, taken as they are.

`LegacyEnv` speaks for an object with `reset() -> obs` and `step(action) -> (obs, reward, done, info)`. Its spaces are
read by what they are called, so neither gym nor a particular version of it is needed to adapt them.

Two public environments are known by name. Bring them beside the project and name their folders:
`platform` (https://github.com/cycraig/gym-platform) and `goal` (https://github.com/cycraig/gym-goal). They import
`gym` (and pygame, to draw); while they are being imported a few names of it are lent to them, made of Gymnasium's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tether.errors import Fault, InvalidInputError
from tether.learning.evaluate import Env


def modern_space(space: Any) -> spaces.Space[Any]:
    """The Gymnasium space for an old one (Box, Discrete, MultiBinary, Tuple, Dict); raises InvalidInputError."""
    kind = type(space).__name__
    if kind == "Box":
        return spaces.Box(np.asarray(space.low), np.asarray(space.high), dtype=space.dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "MultiBinary":
        return spaces.MultiBinary(int(space.n))
    if kind == "Tuple":
        return spaces.Tuple(tuple(modern_space(part) for part in space.spaces))
    if kind == "Dict":
        return spaces.Dict([(name, modern_space(part)) for name, part in space.spaces.items()])
    fault = Fault("space", repr(space), "Box, Discrete, MultiBinary, Tuple or Dict")
    raise InvalidInputError("old environment", [fault], "wrap the environment")


class LegacyEnv(gymnasium.Env[Any, Any]):
    """An old environment under Gymnasium's interface.

    An observation Tuple(Box, …) is cut to its Box. `max_steps` truncates an episode: old environments leave that to a
    registry. `succeeded(reward)` of the last step becomes `info["is_success"]`.
    """

    metadata: dict[str, Any] = {}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, env: Any, max_steps: int, succeeded: Callable[[float], bool] | None = None) -> None:
        self._env, self._max_steps, self._succeeded = env, max_steps, succeeded
        self._steps = 0
        self.action_space = modern_space(env.action_space)
        observations = modern_space(env.observation_space)
        self._is_tuple = isinstance(observations, spaces.Tuple)
        self.observation_space = observations.spaces[0] if isinstance(observations, spaces.Tuple) else observations

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self._env.seed(seed)
        self._steps = 0
        return self._observation(self._env.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One decision."""
        raw, reward, done, info = self._env.step(action)
        self._steps += 1
        truncated = not done and self._steps >= self._max_steps
        info = dict(info)
        if self._succeeded is not None and (done or truncated):
            info["is_success"] = bool(done and self._succeeded(float(reward)))
        return self._observation(raw), float(reward), bool(done), truncated, info

    def _observation(self, raw: Any) -> Any:
        return np.asarray(raw[0] if self._is_tuple else raw, dtype=np.float32)


@dataclass(frozen=True)
class PublicEnv:
    """Where a public environment's class stands, how long its episodes are, what its success is."""

    source: str
    module: str
    name: str
    max_steps: int
    succeeded: Callable[[float], bool] | None


PUBLIC = {
    "platform": PublicEnv(
        "https://github.com/cycraig/gym-platform", "gym_platform.envs.platform_env", "PlatformEnv", 200, None
    ),
    "goal": PublicEnv(
        "https://github.com/cycraig/gym-goal",
        "gym_goal.envs.goal_env",
        "GoalEnv",
        200,
        lambda reward: reward >= 50.0,
    ),
}
"""max_steps: platform's own registration; goal ends by itself after 100. 50 is goal's reward for a goal."""


def make_environment(name: str, folders: Sequence[Path]) -> Callable[[], Env]:
    """Factory of `platform`, `goal` or `MODULE:FACTORY`; `folders` go before the import path.

    FACTORY() gives a Gymnasium environment, or one of the old interface. Raises InvalidInputError.
    """
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if name in PUBLIC:
        public = PUBLIC[name]
        with lent_gym():
            kind = getattr(_imported(public.module, f"bring {public.source} and name its folder"), public.name)
        return lambda: LegacyEnv(kind(), public.max_steps, public.succeeded)
    module, _, factory = name.partition(":")
    if not factory:
        fault = Fault("environment", repr(name), f"MODULE:FACTORY or one of {', '.join(PUBLIC)}")
        raise InvalidInputError("environment", [fault])
    make = getattr(_imported(module, "name the folder it stands in"), factory, None)
    if not callable(make):
        fault = Fault("environment", f"{module} without a callable {factory}", "a factory")
        raise InvalidInputError("environment", [fault])
    return lambda: _as_modern(make(), name)


def _as_modern(env: Any, name: str) -> Env:
    if isinstance(env, gymnasium.Env):
        return env
    lacking = [part for part in ("action_space", "observation_space", "reset", "step") if not hasattr(env, part)]
    if lacking:
        what = f"{name}() made a {type(env).__name__} without {', '.join(lacking)}"
        fix = "name a function that takes nothing and returns an environment"
        raise InvalidInputError("environment", [Fault("environment", what, "a Gymnasium environment")], fix)
    return LegacyEnv(env, max_steps=1_000_000)


def _imported(module: str, fix: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInputError("environment", [Fault(module, str(error), "a module to import")], fix) from error


@contextlib.contextmanager
def lent_gym() -> Iterator[None]:
    """Lend old environments the names of gym that they import, where gym itself is not installed."""
    if importlib.util.find_spec("gym") is not None:
        yield
        return
    lent = _gym_modules()
    sys.modules.update(lent)
    try:
        yield
    finally:
        for name in lent:
            sys.modules.pop(name, None)


def _gym_modules() -> dict[str, types.ModuleType]:
    """gym, gym.spaces, gym.error, gym.utils, gym.utils.seeding, gym.envs, gym.envs.registration."""

    def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
        used = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        return np.random.RandomState(used), used  # what gym gave before 0.22, and these environments call

    registration = _module("gym.envs.registration", register=lambda **_: None)
    envs = _module("gym.envs", registration=registration)
    seeding = _module("gym.utils.seeding", np_random=np_random)
    utils = _module("gym.utils", seeding=seeding)
    error = _module("gym.error", InvalidAction=type("InvalidAction", (ValueError,), {}))
    gym = _module("gym", Env=type("Env", (), {}), spaces=spaces, error=error, utils=utils, envs=envs)
    lent = {module.__name__: module for module in (gym, error, utils, seeding, envs, registration)}
    return {**lent, "gym.spaces": spaces}


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    return module
