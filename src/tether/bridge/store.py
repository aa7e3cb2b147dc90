"""Pairs in a trainer's memory: the newest so many decisions, drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.errors import Fault, InvalidInputError

Arrays = dict[str, NDArray[Any]]


class PairStore:
    """A ring of rows. The first shard says what a row is; later ones must agree."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._rows: Arrays = {}
        self._next = 0
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, self._capacity)

    def add(self, shard: Mapping[str, NDArray[Any]]) -> int:
        """Take a shard's rows; returns how many. Raises InvalidInputError, taking none, where they are another kind."""
        n = len(next(iter(shard.values())))
        if not self._rows:
            self._rows = {k: np.zeros((self._capacity, *a.shape[1:]), a.dtype) for k, a in shard.items()}
        faults = [
            Fault(name, _kind(shard.get(name)), _kind(rows))
            for name, rows in self._rows.items()
            if _kind(shard.get(name)) != _kind(rows)
        ]
        faults += [Fault(name, "a field", "no such field") for name in shard if name not in self._rows]
        if faults:
            raise InvalidInputError("shard", faults, "pairs of one robot and one version of Tether belong in one spool")
        at = (self._next + np.arange(n)) % self._capacity
        for name, rows in self._rows.items():
            rows[at] = shard[name]
        self._next = int((self._next + n) % self._capacity)
        self.added += n
        return n

    def sample(self, rng: np.random.Generator, rows: int) -> Arrays:
        """Random rows, each as likely as any other; ValueError while there are none."""
        if not len(self):
            raise ValueError("no pairs yet")
        at = rng.integers(len(self), size=rows)
        return {name: kept[at] for name, kept in self._rows.items()}


def _kind(rows: NDArray[Any] | None) -> str:
    return "nothing" if rows is None else f"{rows.dtype.name} {list(rows.shape[1:])}"
