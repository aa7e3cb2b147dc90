"""Replay of transitions in one preallocated table, n-step returns as they enter, sampling beside demonstrations.

A row holds observation, mask, choice, flat parameters in [-1, 1], n-step reward, discount to bootstrap with
(0 where the episode ended for good), next observation and next mask, all float32.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tether.contracts import F32
from tether.errors import Fault, InvalidInputError
from tether.learning import arrays as files
from tether.learning.spaces import Bool, HybridSpace


class Batch(NamedTuple):
    """B transitions as float32 tensors: masks (B, K) of 0 and 1, choice one-hot (B, K)."""

    obs: Tensor
    mask: Tensor
    choice: Tensor
    params: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Tensor
    next_mask: Tensor


class Replay:
    """The newest `capacity` transitions; `width` is set by observation size O, choices K and parameters P."""

    def __init__(self, capacity: int, obs_size: int, n_choices: int, n_params: int) -> None:
        self._shape = (obs_size, n_choices, n_params)
        self._widths = (obs_size, n_choices, n_choices, n_params, 1, 1, obs_size, n_choices)
        self._table = np.zeros((capacity, sum(self._widths)), dtype=np.float32)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._table))

    @property
    def shape(self) -> tuple[int, int, int]:
        """O, K, P."""
        return self._shape

    def add(
        self,
        obs: F32,
        mask: Bool,
        choice: int,
        z: F32,
        reward: float,
        discount: float,
        next_obs: F32,
        next_mask: Bool,
    ) -> None:
        """Put one transition in the place of the oldest."""
        one_hot = np.zeros(self._shape[1], dtype=np.float32)
        one_hot[choice] = 1.0
        row = self._table[self._added % len(self._table)]
        np.concatenate((obs, mask, one_hot, z, (reward, discount), next_obs, next_mask), out=row, casting="unsafe")
        self._added += 1

    def rows(self, rng: np.random.Generator, count: int) -> F32:
        """(count, width) rows drawn with replacement."""
        return self._table[rng.integers(len(self), size=count)]

    def batch(self, rows: F32) -> Batch:
        """Rows as tensors."""
        columns = np.split(rows, np.cumsum(self._widths)[:-1], axis=1)
        obs, mask, choice, params, reward, discount, next_obs, next_mask = map(torch.from_numpy, columns)
        return Batch(obs, mask, choice, params, reward[:, 0], discount[:, 0], next_obs, next_mask)

    def observations(self) -> F32:
        """(N, O) every observation held."""
        return self._table[: len(self), : self._shape[0]]

    def state(self) -> files.Arrays:
        """What `restore` needs."""
        return {"table": self._table[: len(self)], "added": np.array(self._added)}

    def restore(self, state: files.Arrays) -> None:
        """Become the replay that gave `state`; raises InvalidInputError if it was shaped otherwise."""
        table, added = state["table"], int(state["added"])
        if table.shape[1] != self._table.shape[1] or len(table) != min(added, len(self._table)):
            fault = Fault("replay", f"{table.shape} of {added}", f"(≤ {len(self._table)}, {self._table.shape[1]})")
            raise InvalidInputError("replay", [fault], "use the same environment and the same replay size")
        self._table[: len(table)] = table
        self._added = added

    def save(self, path: Path) -> None:
        """Write the transitions to an npz file."""
        files.save(path, self.state(), {"kind": "replay", "shape": self._shape, "capacity": len(self._table)})

    @staticmethod
    def load(path: Path) -> Replay:
        """Read what `save` wrote; raises InvalidInputError."""
        state, meta = files.load(path)
        if meta.get("kind") != "replay":
            raise InvalidInputError("replay", [Fault(str(path), f"kind {meta.get('kind')!r}", "kind 'replay'")])
        replay = Replay(int(meta["capacity"]), *(int(n) for n in meta["shape"]))
        replay.restore(state)
        return replay


def sample(replay: Replay, rng: np.random.Generator, count: int, demos: Replay | None, demo_share: float) -> Batch:
    """`count` transitions, `demo_share` of them from `demos` where there are any (Ball et al. 2023, section 4.1)."""
    if demos is None:
        return replay.batch(replay.rows(rng, count))
    n_demos = round(count * demo_share)
    return replay.batch(np.concatenate((replay.rows(rng, count - n_demos), demos.rows(rng, n_demos))))


@dataclass(frozen=True)
class _Step:
    obs: F32
    mask: Bool
    choice: int
    z: F32
    reward: float


class EpisodeWriter:
    """Turns the steps of episodes into n-step transitions of a replay.

    `add` takes steps in order; an episode ends with `terminated` (no value beyond) or `truncated` (value of the next
    state counts). Between episodes it holds nothing.
    """

    def __init__(self, replay: Replay, discount: float, n_step: int) -> None:
        self._replay = replay
        self._discount = discount
        self._n_step = n_step
        self._pending: deque[_Step] = deque()

    def add(
        self,
        obs: F32,
        mask: Bool,
        choice: int,
        z: F32,
        reward: float,
        next_obs: F32,
        next_mask: Bool,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """One step: in (obs, mask) `choice` with flat `z` (P,) gave `reward` and led to (next_obs, next_mask)."""
        if not np.isfinite(reward):
            raise InvalidInputError("transition", [Fault("reward", str(reward), "a finite number")])
        self._pending.append(_Step(obs, mask, choice, z, float(reward)))
        over = terminated or truncated
        while self._pending and (over or len(self._pending) == self._n_step):
            first = self._pending[0]
            total = sum(self._discount**i * step.reward for i, step in enumerate(self._pending))
            bootstrap = 0.0 if terminated else self._discount ** len(self._pending)
            self._replay.add(first.obs, first.mask, first.choice, first.z, total, bootstrap, next_obs, next_mask)
            self._pending.popleft()


def demonstrations(space: HybridSpace, capacity: int, obs_size: int) -> Replay:
    """An empty replay for demonstrations in `space`; fill it through an EpisodeWriter with `space.to_unit`."""
    return Replay(capacity, obs_size, space.n_choices, space.n_params)


def require_same_shape(replay: Replay, demos: Replay) -> None:
    """Raise InvalidInputError unless `demos` fit and are not empty."""
    if demos.shape != replay.shape or len(demos) == 0:
        found: Any = f"(O, K, P) = {demos.shape}, {len(demos)} transitions"
        fault = Fault("demos", found, f"(O, K, P) = {replay.shape}, at least one transition")
        raise InvalidInputError("demonstrations", [fault], "record them in the environment that is trained in")
