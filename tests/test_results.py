"""Headers of results say what was run where; files are whole or absent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tether import __version__
from tether.results import header, write_json


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
