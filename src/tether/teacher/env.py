"""The teacher's environment for learners: Gymnasium around the core loop, hybrid actions, rewards from the subgoals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from tether.assembly import skills
from tether.config import bounded
from tether.contracts import F32, Estimate
from tether.teacher.actions import choices
from tether.teacher.loop import OracleLoop
from tether.teacher.observation import LIMIT, SIZE
from tether.teacher.starts import RETRIES, Start, prefix
from tether.world.judge import Failure
from tether.world.profile import Delay

TASKS = ("pick", "pick_moving")


@dataclass(frozen=True)
class EnvConfig:
    """Where the teacher learns. An episode's task, start and holds are drawn from its seed."""

    tasks: tuple[str, ...] = TASKS
    profile: str = "ideal_lagged"
    retry_share: float = bounded(0.0, 1.0, default=0.3, doc="share of episodes that begin where a retry begins")
    hold: tuple[int, int] = bounded(1, 20, default=(1, 1), unit="decisions", doc="a choice is kept for, drawn between")
    decisions_max: int | None = bounded(10, 1000, default=None, doc="an episode is truncated after so many")
    reward_delay_s: float = bounded(0.0, 2.0, default=0.0, unit="s", doc="0: a reward comes with what earned it")


class TeacherEnv(gymnasium.Env[F32, tuple[Any, ...]]):
    """Observation: `tether.teacher.observation`. Action: Tuple(Discrete, a Box for each choice) in SI units.

    info: `action_mask` (choices that the task skill allows); at the end `is_success`, and `result` (EpisodeResult)
    where it was the world that ended the episode. Timeouts and `decisions_max` truncate.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, config: EnvConfig | None = None) -> None:
        self.config = config or EnvConfig()
        self.choices = choices(skills())
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (SIZE,), np.float32)
        boxes = [gymnasium.spaces.Box(_f32(c.low), _f32(c.high), dtype=np.float32) for c in self.choices]
        self.action_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(len(self.choices)), *boxes))
        delay = Delay(self.config.reward_delay_s, 0.0, 0.0)
        self._loops = {name: OracleLoop(name, self.config.profile, delay) for name in self.config.tasks}
        self._mask = np.ones(len(self.choices), np.bool_)
        self._loop: OracleLoop | None = None
        self._next_seed = 0

    @property
    def loop(self) -> OracleLoop:
        """The running episode's loop; for scripted demonstrations and labels."""
        if self._loop is None:
            raise RuntimeError("no episode: reset the environment first")
        return self._loop

    @property
    def estimate(self) -> Estimate:
        """The truth as an estimate, for the decision that is due."""
        return self._estimate

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[F32, dict[str, Any]]:
        """Start the episode of `seed`, or the next one. options: `task` (name), `start` (Start), instead of drawn."""
        super().reset(seed=seed)
        self._next_seed = self._next_seed if seed is None else seed
        options = options or {}
        while True:
            number, self._next_seed = self._next_seed, self._next_seed + 1
            rng = np.random.default_rng((number, 0x7EAC))
            task = options.get("task", self.config.tasks[int(rng.integers(len(self.config.tasks)))])
            retry = bool(rng.random() < self.config.retry_share)
            start = RETRIES[int(rng.integers(len(RETRIES)))] if retry else Start.FRESH
            self._rng = rng
            self._left = math.inf if self.config.decisions_max is None else self.config.decisions_max
            if self._begin(task, options.get("start", start), number, rng):
                return self._look(), {"action_mask": self._mask, "task": task, "seed": number}

    def step(self, action: tuple[Any, ...]) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """One choice, kept for as many decisions as `hold` says; the estimate is renewed at each."""
        choice = self.choices[int(action[0])]
        params = np.asarray(action[1 + int(action[0])], np.float64)
        # float32 rounds bounds either way; the skill table takes none of it
        params = np.minimum(np.maximum(params, choice.low), choice.high)
        low, high = self.config.hold
        reward = 0.0
        info: dict[str, Any] = {"action_mask": self._mask}
        for _ in range(int(self._rng.integers(low, high + 1))):
            turn = self.loop.act(choice.primitive, params, self._estimate)
            reward += sum(r.payment.value for r in turn.rewards)
            self._left -= 1
            if turn.result is not None:
                info["result"] = turn.result
                info["is_success"] = turn.result.success
                ran_out = turn.result.failure == Failure.TIMEOUT
                return self._last, reward, not ran_out, ran_out, info
            self._look()
        if self._left > 0:
            return self._last, reward, False, False, info
        info["is_success"] = False
        return self._last, reward, False, True, info

    def close(self) -> None:
        """Give the worlds up."""
        for loop in self._loops.values():
            loop.close()

    def _begin(self, task: str, start: Start, seed: int, rng: np.random.Generator) -> bool:
        """Start an episode and play its prefix; False where it ended in that."""
        loop = self._loop = self._loops[task]
        loop.reset(seed)
        for leg in prefix(start, skills(), rng):
            for _ in range(leg.decisions):
                _, estimate = loop.memory.observe(loop.truth, loop.now_ns)
                if loop.act(leg.primitive, leg.params, estimate).result is not None:
                    return False
        if not loop.truth.held:  # a cube in hand cannot be aligned with any more: what its grasp paid stays paid
            loop.begin_rewards()
        return True

    def _look(self) -> F32:
        self._last, self._estimate = self.loop.memory.observe(self.loop.truth, self.loop.now_ns)
        return self._last


def _f32(values: Sequence[float] | np.ndarray[Any, Any]) -> F32:
    return np.asarray(values, np.float32)
