"""Collected episodes as batches of sequences for training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.errors import Fault, InvalidInputError
from tether.student.observation import DROPS, FIELDS, PERIODS, ROLLED, STATE_SCALE, STATE_SIZE, TOKEN_SIZE, TOKENS
from tether.student.shards import read_shard

CONTEXT = PERIODS - 1
"""Decisions at the front of a sequence that give the others their past and carry no loss themselves."""
_INPUTS = tuple(field.name for field in FIELDS)
_COLUMNS = (
    "memory", "label_probability", "label_mean", "label_spread", "true_cube", "true_acceleration", "true_tool",
    "true_twist", "true_joints", "true_held", "acted_estimate", "acted_valid",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences. obs, memory: (B, T, …); the rest with B · T in front. weight: (B · T,) of each decision's loss.

    states: (B · T, 1 + ROLLED, STATE_SIZE) scaled, state_mask: (B · T, 1 + ROLLED).
    """

    obs: dict[str, Tensor]
    memory: Tensor
    weight: Tensor
    probability: Tensor
    mean: Tensor
    spread: Tensor
    cube: Tensor
    states: Tensor
    state_mask: Tensor


class Episodes:
    """All decisions of many shards, one after the other, with where each episode begins."""

    def __init__(self, shards: Iterable[Path], *, exact_only: bool = False) -> None:
        """exact_only: only episodes under the collection's own profile. Raises InvalidInputError where none is left."""
        parts: list[dict[str, NDArray[Any]]] = []
        lengths: list[int] = []
        self.meta: list[dict[str, Any]] = []
        paths = sorted(shards)
        for path in paths:
            columns, counts, meta = read_shard(path, frozenset((*_INPUTS, *_COLUMNS)))
            keep = np.array([not exact_only or record["exact"] for record in meta])
            rows = np.repeat(keep, counts)
            parts.append({name: column[rows] for name, column in columns.items()})
            lengths += counts[keep].tolist()
            self.meta += [record for record, kept in zip(meta, keep, strict=True) if kept]
        if not lengths:
            fault = Fault("shards", f"{len(paths)} files without an episode to use", "collected episodes")
            raise InvalidInputError("student data", [fault], "collect first: `tether train student`")
        self.has_tokens = any("tokens" in part for part in parts)
        """Whether any of the episodes has camera tokens; the others' are masked."""
        if self.has_tokens:
            for part in parts:
                part.setdefault("tokens", np.zeros((len(part["memory"]), TOKENS, TOKEN_SIZE), np.float16))
        self.columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
        self.lengths = np.array(lengths)
        self.ends = np.cumsum(self.lengths)
        self.starts = self.ends - self.lengths
        self.episode = np.repeat(np.arange(len(lengths)), self.lengths)
        self._states, self._state_mask = self._targets()

    def __len__(self) -> int:
        return int(self.ends[-1])

    def batch(self, rows: NDArray[np.int64], inside: NDArray[np.bool_], counts: NDArray[np.bool_]) -> Batch:
        """Sequences of decisions `rows` (B, T). inside: False where a sequence goes on past its episode; counts: with
        loss."""
        c = self.columns
        flat = rows.reshape(-1)

        def tensor(name: str) -> Tensor:
            return torch.from_numpy(np.asarray(c[name][rows], np.float32))

        def line(name: str) -> Tensor:
            return torch.from_numpy(np.asarray(c[name][flat], np.float32))

        obs = {name: tensor(name) for name in _INPUTS if name in c}
        cube = torch.cat((line("true_cube"), line("true_acceleration").clamp(-8.0, 8.0)), dim=-1)
        return Batch(
            obs=obs,
            memory=tensor("memory"),
            weight=torch.from_numpy((inside & counts).reshape(-1).astype(np.float32)),
            probability=line("label_probability"),
            mean=line("label_mean"),
            spread=line("label_spread"),
            cube=cube,
            states=torch.from_numpy(self._states[flat[:, None] + np.arange(1 + ROLLED)]),
            state_mask=torch.from_numpy(self._state_mask[flat]),
        )

    def sampled(self, rng: np.random.Generator, sequences: int, length: int) -> Batch:
        """Random sequences of `length` decisions besides their context; each decision is as likely as any other."""
        at = rng.integers(len(self), size=sequences)
        episode = self.episode[at]
        first = np.maximum(at - rng.integers(length, size=sequences) - CONTEXT, self.starts[episode])
        steps = np.arange(length + CONTEXT)
        rows = first[:, None] + steps
        inside = rows < self.ends[episode][:, None]
        counts = (steps >= CONTEXT)[None, :] | (first == self.starts[episode])[:, None]
        return self.batch(np.minimum(rows, self.ends[episode][:, None] - 1), inside, counts)

    def whole(self, episode: int) -> Batch:
        """One episode from its beginning to its end."""
        rows = np.arange(self.starts[episode], self.ends[episode])[None, :]
        yes = np.ones(rows.shape, np.bool_)
        return self.batch(rows, yes, yes)

    def _targets(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """True states of every decision (padded by ROLLED rows), and which of the next ones are of its episode."""
        c = self.columns
        n = len(self)
        state = np.concatenate(
            (c["true_cube"][:, :3] - c["true_tool"], c["true_twist"], c["true_joints"]), axis=1
        ) / np.array(STATE_SCALE)
        padded = np.concatenate((state, np.zeros((ROLLED, STATE_SIZE)))).astype(np.float32)
        left = self.ends[self.episode] - np.arange(n)
        mask = (np.arange(1 + ROLLED)[None, :] < left[:, None]).astype(np.float32)
        return padded, mask


def drop_modalities(obs: Mapping[str, Tensor], rng: np.random.Generator, probability: float) -> dict[str, Tensor]:
    """Modality dropout: in some sequences one modality, seldom two, is missing from beginning to end."""
    out = dict(obs)
    sequences = len(next(iter(obs.values())))
    for fields in DROPS.values():
        keep = torch.from_numpy((rng.random(sequences) >= probability).astype(np.float32))
        for field in fields:
            if field in out:
                out[field] = out[field] * keep.view(-1, *([1] * (out[field].ndim - 1)))
    return out
