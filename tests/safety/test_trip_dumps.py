"""The breaker's state on disk: whole or not at all, off the tick's thread, and what became of it is said."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tether.safety import dump
from tether.safety.dump import TripDumps


def test_each_trip_leaves_a_file_of_its_own_and_says_where(tmp_path: Path) -> None:
    dumps = TripDumps(tmp_path / "gate", run_ns=7)
    for count in range(2):
        path = dumps.write("reward_breaker", {"count": count})
        assert path is not None and dumps.finish()
        assert json.loads(path.read_text())["count"] == count
        assert dumps.outcome() == f"written to {path}"
        assert dumps.outcome() is None, "said once"
    assert len(list((tmp_path / "gate").iterdir())) == 2


def test_disk_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(dump, "write_json", lambda path, result: answers.wait(30.0))
    dumps = TripDumps(tmp_path, run_ns=7)
    assert dumps.write("reward_breaker", {}) is not None
    assert dumps.write("reward_breaker", {}) is None, "one at a time"
    assert dumps.outcome() is None and not dumps.finish(0.01)
    answers.set()
    assert dumps.finish(30.0) and dumps.outcome() is not None


def test_dump_that_could_not_be_written_is_said_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    dumps = TripDumps(tmp_path / "file" / "folder", run_ns=7)
    dumps.write("reward_breaker", {})
    assert dumps.finish()
    outcome = dumps.outcome()
    assert outcome is not None and outcome.startswith("NOT written")
