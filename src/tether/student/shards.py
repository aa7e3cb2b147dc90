"""Collected episodes on disk: one npz file a shard, no pickle, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.results import require_writable

Columns = Mapping[str, NDArray[Any]]
"""Arrays whose first axis counts decisions."""
_META, _LENGTHS = "_meta", "_lengths"
_HALF = frozenset({"imu", "label_mean", "label_spread", "tokens"})
"""Columns kept with half precision: their last bits are noise."""


def write_shard(path: Path, episodes: Sequence[Columns], meta: Sequence[Mapping[str, Any]]) -> None:
    """Write episodes with the same columns; meta: one JSON-able record each."""
    require_writable(path)
    columns = {
        name: np.concatenate([episode[name] for episode in episodes]).astype(
            np.float16 if name in _HALF else episodes[0][name].dtype
        )
        for name in episodes[0]
    }
    first = next(iter(episodes[0]))
    lengths = np.array([len(episode[first]) for episode in episodes], np.int64)
    text = np.frombuffer(json.dumps([dict(record) for record in meta]).encode(), np.uint8)
    with replaced(path) as file:
        arrays: dict[str, Any] = {**columns, _META: text, _LENGTHS: lengths}
        np.savez(file, **arrays)  # packing noise costs more time than the disk does space


def read_shard(
    path: Path, only: frozenset[str] | None = None
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64], list[dict[str, Any]]]:
    """Columns (all, or those named), number of decisions of each episode, and the episodes' records.

    Raises InvalidInputError where the file is no shard.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            names = [n for n in data.files if n not in (_META, _LENGTHS) and (only is None or n in only)]
            columns = {n: data[n] for n in names}
            meta = json.loads(data[_META].tobytes().decode())
            return columns, data[_LENGTHS], meta
    except (OSError, ValueError, KeyError, RecursionError) as error:
        fault = Fault(str(path), str(error), "a shard of collected episodes")
        raise InvalidInputError("student data", [fault], "delete it and collect again") from error
