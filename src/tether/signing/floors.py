"""Versions only go up: the highest version of each thing that was in use here, kept as critical state.

A floor is raised when a version is verified. There is no way to lower one; what is older is used again by signing it
again, as a higher version.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from types import TracebackType

from tether.integrity.record import StateError
from tether.integrity.store import Store
from tether.signing.files import state_folder

_ITEM = "floors"


class Floors:
    """The floors of this user on this machine. A context manager that holds the store's lock; keep it short.

    unproven: why the floors are not known to be the newest; empty where they are.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Raises what `tether.integrity.store.Store` raises."""
        self._store = Store(state_folder() / "versions" if folder is None else folder, {_ITEM: b"{}"}, time.time_ns())
        try:
            self._floors = _parsed(self._store.snapshot.values[_ITEM])
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Floors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()

    @property
    def unproven(self) -> str:
        """See the class."""
        return self._store.unproven

    def of(self, name: str) -> int:
        """The floor of a thing; 0 where it was never in use."""
        return self._floors.get(name, 0)

    def raise_to(self, name: str, version: int) -> None:
        """Raise the floor of a thing; a lower or equal version changes nothing. Raises StateError, InvalidInputError
        (too many things)."""
        if version > self.of(name):
            floors = {**self._floors, name: version}
            packed = json.dumps(floors, sort_keys=True, separators=(",", ":")).encode()
            self._store.put({_ITEM: packed}, time.time_ns())
            self._floors = floors

    def acknowledge(self, reason: str) -> None:
        """A person takes floors that are not known to be the newest."""
        self._store.acknowledge(reason, time.time_ns())


def _parsed(data: bytes) -> dict[str, int]:
    """What this module wrote and the store verified; anything else is a fault of ours."""
    try:
        floors = json.loads(data)
    except ValueError as error:
        raise StateError(f"version floors: {error}") from None
    if not isinstance(floors, dict) or not all(type(v) is int for v in floors.values()):
        raise StateError("version floors: not names and numbers")
    return floors


def floor_name(key_id: str, kind: str, name: str) -> str:
    """Under what a floor is kept: each key counts its own versions. Short, so that some 2,000 things have room."""
    return hashlib.sha256(f"{key_id}\n{kind}\n{name}".encode()).hexdigest()[:20]
