"""A small hybrid task: step beside a target, then shoot with the power that the place asks for.

Choices: `step` (one parameter, how far), `shoot` (one parameter, power; ends the episode), `stop` (none; ends it).
Shooting pays only within 0.3 of the target, and the more the nearer the power is to 1 + 0.6 · target. So the optimum
(about 0.93 a episode) needs the right choice, at the right place, with the right parameter; stopping at once pays 0.1.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEP, SHOOT, STOP = 0, 1, 2


class AimEnv(gymnasium.Env[Any, Any]):
    """`masked`: info has a mask that forbids shooting from afar, and the episode must never see it done."""

    def __init__(self, masked: bool = False) -> None:
        self._masked = masked
        self.observation_space = spaces.Box(-2.0, 2.0, (2,))
        self.action_space = spaces.Tuple(
            (
                spaces.Discrete(3),
                spaces.Box(-0.8, 0.8, (1,)),
                spaces.Box(0.0, 2.0, (1,)),
                spaces.Box(-1.0, 1.0, (0,)),
            )
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._x, self._target = 0.0, float(self.np_random.uniform(-0.8, 0.8))
        self._steps = 0
        return self._obs(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        choice, move, power, _ = action
        assert self.action_space.contains(action), f"{action} is not in the action space"
        self._steps += 1
        near = self._near()
        if choice == STEP:
            self._x = float(np.clip(self._x + move[0], -2.0, 2.0))
            return self._obs(), -0.05, False, self._steps >= 8, self._info()
        if choice == STOP:
            return self._obs(), 0.1, True, False, self._info()
        assert near or not self._masked, "the mask forbids shooting from afar"
        reward = 1.0 - 2.0 * abs(float(power[0]) - (1.0 + 0.6 * self._target)) if near else -0.5
        return self._obs(), max(reward, -0.5), True, False, self._info()

    def _near(self) -> bool:
        return abs(self._x - self._target) <= 0.3

    def _obs(self) -> Any:
        return np.array([self._x, self._target], dtype=np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([True, self._near(), True])} if self._masked else {}
