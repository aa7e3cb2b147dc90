"""Records on disk, a line of JSON each, after a line with a key: what interrupted work goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class RecordJournal:
    """Records that were made under one key; `key` says all that they depend on. One writer at a time."""

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        self._path, self._key = path, dict(key)

    def read(self) -> list[dict[str, Any]]:
        """What was kept under this very key; a journal of another one is set aside as *.old. A torn line is left."""
        if not self._path.exists():
            return []
        records = read_lines(self._path)
        if not records or records[0] != self._key:
            os.replace(self._path, self._path.with_name(self._path.name + ".old"))
            return []
        return records[1:]

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep one more."""
        before = self._path.read_bytes()[-1:] if self._path.exists() else None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            if before is None:
                file.write(json.dumps(self._key) + "\n")
            elif before != b"\n":
                file.write("\n")  # a torn line stays alone
            file.write(json.dumps(record) + "\n")

    def remove(self) -> None:
        """The work is complete and its result written."""
        self._path.unlink(missing_ok=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Records of a file of JSON lines, in their order; a line that is torn or still being written is left."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(record, dict):
            records.append(record)
    return records
