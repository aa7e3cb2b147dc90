"""The way of pairs from the robot's process to a trainer's: files in a folder, bounded, whole or not there.

The writer packs pairs of one episode into shards (`.npz`, one row a decision, no pickles), writes each aside and
renames it. It never waits: a thread does the writing, its queue and the folder are bounded, and what does not fit is
dropped, the oldest first, and counted. Whether anybody reads makes no difference to the writer; a reader may be killed
at any moment, and a new one goes on with what lies there.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether.config import bounded
from tether.errors import Fault, InvalidInputError
from tether.files import replaced

if TYPE_CHECKING:
    from tether.bridge.pairs import Pair

Shard = dict[str, NDArray[Any]]

_NAME = re.compile(r"shard-(\d{12})\.npz")
_STAMP_FIELDS = ("episode", "decision_id", "stamp_ns")
_CLOSE_S = 2.0


@dataclass(frozen=True)
class SpoolConfig:
    """Bounds of a spool."""

    pairs_per_shard: int = bounded(1, 100_000, default=100)
    shards_max: int = bounded(1, 100_000, default=64, doc="in the folder; past it the oldest is dropped")
    waiting_max: int = bounded(1, 1000, default=4, doc="shards that wait for the disk; past it the oldest is dropped")


@dataclass(frozen=True)
class SpoolStats:
    """written, pairs: shards and pairs that lie or lay in the folder. dropped_waiting, dropped_unread: shards that the
    disk, or no reader, took in time. failed: shards that could not be written, and the last reason."""

    written: int
    pairs: int
    dropped_waiting: int
    dropped_unread: int
    failed: int
    failure: str


class SpoolWriter:
    """Takes pairs; `put` returns at once, whatever the disk does. For one thread, beside its own."""

    def __init__(self, folder: Path, config: SpoolConfig | None = None) -> None:
        """What an earlier writer left stays for its reader. Raises InvalidInputError where there can be no folder."""
        self._folder = folder
        self._config = config or SpoolConfig()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for torn in folder.glob("*.part"):
                torn.unlink(missing_ok=True)
        except OSError as error:
            fault = Fault(str(folder), error.strerror or str(error), "a folder that can be written")
            raise InvalidInputError("spool", [fault]) from error
        numbers = [number for number, _ in shards_in(folder)]
        self._next = max(numbers, default=-1) + 1
        self._rows: list[Pair] = []
        self._queue: queue.Queue[list[Pair] | None] = queue.Queue(self._config.waiting_max)
        self._lock = threading.Lock()
        self._counts = {"written": 0, "pairs": 0, "dropped_waiting": 0, "dropped_unread": 0, "failed": 0}
        self._failure = ""
        self._thread = threading.Thread(target=self._write_all, name="spool", daemon=True)
        self._thread.start()

    def put(self, pair: Pair) -> None:
        """Take a pair. A shard holds one episode."""
        if self._rows and self._rows[-1].episode != pair.episode:
            self.flush()
        self._rows.append(pair)
        if len(self._rows) == self._config.pairs_per_shard:
            self.flush()

    def flush(self) -> None:
        """Hand what is there to the disk."""
        rows, self._rows = self._rows, []
        if rows:
            self._hand_over(rows)

    def close(self) -> None:
        """Write what is there and stop; a disk that takes longer than some seconds is not waited for."""
        rows, self._rows = self._rows, []
        if rows:
            self._hand_over(rows, _CLOSE_S)
        self._hand_over(None, _CLOSE_S)
        self._thread.join(_CLOSE_S)

    def stats(self) -> SpoolStats:
        """The numbers so far."""
        with self._lock:
            return SpoolStats(**self._counts, failure=self._failure)

    def _hand_over(self, rows: list[Pair] | None, wait_s: float = 0.0) -> None:
        while True:
            try:
                self._queue.put(rows, block=wait_s > 0.0, timeout=wait_s)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._queue.get_nowait()
                    self._count("dropped_waiting")

    def _write_all(self) -> None:
        while (rows := self._queue.get()) is not None:
            try:
                self._write(rows)
            except (OSError, ValueError) as error:
                with self._lock:
                    self._failure = str(error)
                self._count("failed")

    def _write(self, rows: list[Pair]) -> None:
        path = self._folder / f"shard-{self._next:012d}.npz"
        self._next += 1
        with replaced(path) as file:
            arrays: dict[str, Any] = dict(packed(rows))
            np.savez(file, **arrays)
        self._count("written")
        self._count("pairs", len(rows))
        lying = [each for _, each in shards_in(self._folder)]
        for old in lying[: max(len(lying) - self._config.shards_max, 0)]:
            with contextlib.suppress(FileNotFoundError):  # a reader has just taken it
                old.unlink()
                self._count("dropped_unread")

    def _count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by


class SpoolReader:
    """Takes shards out of a spool, oldest first, and removes them. One reader a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.taken = 0
        self.refused = 0
        """Shards that were no whole ones; they are removed, too."""

    def take(self, most: int = 16) -> list[Shard]:
        """Up to `most` shards that lie there now."""
        found: list[Shard] = []
        for _, path in shards_in(self._folder)[:most]:
            try:
                found.append(read_shard(path))
                self.taken += 1
            except FileNotFoundError:
                continue  # the writer has dropped it
            except (OSError, ValueError, zipfile.BadZipFile, InvalidInputError):
                self.refused += 1
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        return found


def packed(rows: list[Pair]) -> Shard:
    """Pairs of one episode as arrays with a row each. Raises ValueError where shapes differ between rows."""
    shard: Shard = {name: np.array([getattr(row, name) for row in rows], np.int64) for name in _STAMP_FIELDS}
    for name in rows[0].fields:
        shard[name] = np.stack([row.fields[name] for row in rows])
    return shard


def read_shard(path: Path) -> Shard:
    """Read one; raises InvalidInputError where it is none, or holds what is not finite."""
    with np.load(path, allow_pickle=False) as file:
        shard: Shard = {name: file[name] for name in file.files}
    _check(path, shard)
    return shard


def _check(path: Path, shard: Mapping[str, NDArray[Any]]) -> None:
    missing = [name for name in _STAMP_FIELDS if name not in shard]
    faults = [Fault(name, "nothing", "an array") for name in missing]
    if not missing:
        n = len(shard["decision_id"])
        faults += [Fault(k, f"{len(a)} rows", f"{n} rows") for k, a in shard.items() if a.ndim == 0 or len(a) != n]
    faults += [Fault(k, "not finite", "finite numbers") for k, a in shard.items() if not np.isfinite(a).all()]
    if faults:
        raise InvalidInputError(f"shard {path.name}", faults)


def shards_in(folder: Path) -> list[tuple[int, Path]]:
    """Number and path of the shards that lie in a folder, oldest first; none where there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [(int(match[1]), folder / match[0]) for name in names if (match := _NAME.fullmatch(name))]
    return sorted(found)
