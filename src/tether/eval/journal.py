"""Finished episodes on disk, a line of JSON each: what an interrupted evaluation goes on from."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether.contracts import EpisodeResult, EpisodeSpec


class Journal:
    """Finished episodes of one setting, a JSON line each, after a line with the key of the setting."""

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        self._path = path
        self._key = dict(key)

    def read(self) -> dict[int, EpisodeResult]:
        """Episodes kept under this very key; a journal of another one is set aside as *.old. A torn line is cut."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text(encoding="utf-8").splitlines()
        records = [record for line in lines if (record := _parsed(line)) is not None]
        if not records or records[0] != self._key:
            os.replace(self._path, self._path.with_name(self._path.name + ".old"))
            return {}
        results = [_from_record(record) for record in records[1:]]
        return {result.spec.seed: result for result in results}

    def append(self, result: EpisodeResult) -> None:
        """Keep one more."""
        fresh = not self._path.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            if fresh:
                file.write(json.dumps(self._key) + "\n")
            file.write(_line(result))

    def remove(self) -> None:
        """The evaluation is complete and its result written."""
        self._path.unlink(missing_ok=True)


def append_result(path: Path, result: EpisodeResult) -> None:
    """Add one result to a file of results."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(result))


def read_results(path: Path) -> list[EpisodeResult]:
    """Results of a file of results, in the order in which they came; a line that is still being written is left."""
    if not path.exists():
        return []
    records = map(_parsed, path.read_text(encoding="utf-8").splitlines())
    return [_from_record(record) for record in records if record is not None]


def _line(result: EpisodeResult) -> str:
    return json.dumps(dataclasses.asdict(result)) + "\n"


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _from_record(record: dict[str, Any]) -> EpisodeResult:
    return EpisodeResult(**{**record, "spec": EpisodeSpec(**record["spec"])})
