"""Finished episodes on disk, a line of JSON each: what an interrupted evaluation goes on from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether.contracts import EpisodeResult, EpisodeSpec
from tether.journal import RecordJournal, read_lines


class Journal:
    """Finished episodes of one setting, under the key of the setting."""

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        self.path = path
        self._records = RecordJournal(path, key)

    def read(self) -> dict[int, EpisodeResult]:
        """Episodes kept under this very key, by their seeds."""
        results = map(_from_record, self._records.read())
        return {result.spec.seed: result for result in results}

    def append(self, result: EpisodeResult) -> None:
        """Keep one more."""
        self._records.append(dataclasses.asdict(result))

    def remove(self) -> None:
        """The evaluation is complete and its result written."""
        self._records.remove()


def append_result(path: Path, result: EpisodeResult) -> None:
    """Add one result to a file of results."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read_results(path: Path) -> list[EpisodeResult]:
    """Results of a file of results, in the order in which they came; a line that is still being written is left."""
    if not path.exists():
        return []
    return [_from_record(record) for record in read_lines(path)]


def _from_record(record: dict[str, Any]) -> EpisodeResult:
    return EpisodeResult(**{**record, "spec": EpisodeSpec(**record["spec"])})
