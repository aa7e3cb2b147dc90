"""Headers of results say what was run where; files are whole or absent."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path

import pytest

from tether import __version__
from tether.errors import InvalidInputError
from tether.results import header, require_writable, write_json


def test_header_says_what_ran_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/some/where/tether", "eval", "--policy", "classic"])
    head = header("eval", 7)
    assert set(head) == {"tool", "version", "commit", "machine", "command", "seed"}
    assert (head["tool"], head["version"], head["seed"]) == ("eval", __version__, 7)
    assert head["command"] == "tether eval --policy classic"
    assert set(head["machine"]) == {"cpu", "cores", "memory_gib", "system", "python"}
    assert head["machine"]["cores"] >= 1
    json.dumps(head, allow_nan=False)


def test_written_file_reads_back_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "result.json"
    write_json(path, {"rate": 0.5, "names": ["x", "ü"]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"rate": 0.5, "names": ["x", "ü"]}
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object()])
def test_result_that_is_no_json_leaves_the_old_file_as_it_was(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"rate": 0.5})
    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"rate": bad})
    assert json.loads(path.read_text(encoding="utf-8")) == {"rate": 0.5}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_result_that_cannot_go_where_it_should_is_kept_and_the_place_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InvalidInputError, match="the result is kept in"):
        write_json(tmp_path / "folder.json", {"rate": 0.5})
    (kept,) = tmp_path.glob("tether-result-*.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == {"rate": 0.5}


def test_trying_whether_a_file_can_be_written_leaves_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a" / "result.json"
    require_writable(path)
    assert list(path.parent.iterdir()) == []
    path.write_text("old")
    require_writable(path)
    assert path.read_text() == "old"
    with pytest.raises(InvalidInputError, match="folder"):
        require_writable(tmp_path / "a")


def test_dash_is_no_file_name_for_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="/dev/stdout"):
        require_writable(Path("-"))
    assert list(tmp_path.iterdir()) == []


def test_of_results_that_grow_a_pipe_gets_the_last_and_a_file_all(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (pipe, file):
            write_json(path, {"episodes": 1}, last=False)
        assert json.loads(file.read_text()) == {"episodes": 1}
        write_json(pipe, {"episodes": 2})
        assert json.loads(os.read(reader, 4096)) == {"episodes": 2}
    finally:
        os.close(reader)


def test_device_is_written_to_and_stays_a_device() -> None:
    null = Path("/dev/null")
    require_writable(null)
    write_json(null, {"rate": 0.5})
    assert null.is_char_device()
    assert not Path("/dev/null.part").exists()


def test_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        require_writable(path)
        came = select.poll()
        came.register(reader)
        assert came.poll(0) == [], "opened and closed again, the pipe would have ended for its reader"
        write_json(path, {"rate": 0.5})
        assert json.loads(os.read(reader, 4096)) == {"rate": 0.5}
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
