"""The breaker's state on disk when it trips, written on a thread of its own: the tick never waits for a disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether.errors import TetherError
from tether.results import write_json


class TripDumps:
    """Writes one file a trip. At most one is under way; a trip needs a person to re-arm, so they do not pile up."""

    def __init__(self, folder: Path, run_ns: int) -> None:
        """run_ns: names the files of this run, apart from those of others in the same folder."""
        self._folder = folder
        self._run_ns = run_ns
        self._count = 0
        self._thread: threading.Thread | None = None
        self._outcome: str | None = None

    def write(self, kind: str, state: Mapping[str, Any]) -> Path | None:
        """Begin to write `state`, plain data that nobody changes any more; None while the last is under way."""
        if self._thread is not None and self._thread.is_alive():
            return None
        path = self._folder / f"{kind}_{self._run_ns}_{self._count}.json"
        self._count += 1
        self._thread = threading.Thread(target=self._write, args=(path, state), name="trip dump", daemon=True)
        self._thread.start()
        return path

    def outcome(self) -> str | None:
        """What became of a dump, once: its path, or why it could not be written."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread, outcome = None, self._outcome
        return outcome

    def finish(self, deadline_s: float = 2.0) -> bool:
        """Wait for a dump that is under way; False where the deadline came first."""
        thread, end_s = self._thread, time.monotonic() + deadline_s
        if thread is not None:
            thread.join(max(end_s - time.monotonic(), 0.0))
        return thread is None or not thread.is_alive()

    def _write(self, path: Path, state: Mapping[str, Any]) -> None:
        try:
            write_json(path, {"tool": "gate", **state})
            self._outcome = f"written to {path}"
        except (OSError, ValueError, TetherError) as error:
            self._outcome = f"NOT written: {error}"
