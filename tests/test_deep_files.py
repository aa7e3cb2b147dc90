"""Files and messages of 20,000 brackets are refused as any other nonsense: Python's parser of JSON gives up on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tether.codec.sensors import event_data
from tether.deploy.layout import Place
from tether.doctor.software import manifest_fault
from tether.errors import InvalidInputError
from tether.journal import read_lines
from tether.learning import arrays
from tether.runtimes.interface import RuntimeName
from tether.runtimes.trial import read_answer
from tether.student.shards import read_shard
from tether.team.crew import as_text
from tether.vision.frames import FramesConfig, make_frames

DEEP = "[" * 20_000


def packed(path: Path, name: str) -> Path:
    with path.open("wb") as file:
        np.savez(file, **{name: np.frombuffer(DEEP.encode(), np.uint8)})
    return path


def deep(path: Path) -> Path:
    path.write_text(DEEP, encoding="utf-8")
    return path


def frames_beside(path: Path) -> None:
    deep(path.with_name("frames.json"))
    make_frames(path.parent, FramesConfig())


@pytest.mark.parametrize(
    "read",
    [
        lambda path: as_text(deep(path)),
        lambda path: arrays.load(packed(path, "meta.json")),
        lambda path: read_shard(packed(path, "_meta")),
        frames_beside,
    ],
    ids=["team record", "learning state", "shard", "frames"],
)
def test_a_file_nested_too_deep_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        read(tmp_path / "x")


def test_what_is_nested_too_deep_counts_as_unreadable_where_that_has_a_meaning(tmp_path: Path) -> None:
    assert "is not JSON" in str(manifest_fault(deep(tmp_path / "manifest.json").parent))
    path = tmp_path / "lines"
    path.write_text(f'{{"a": 1}}\n{DEEP}\n{{"b": 2}}\n', encoding="utf-8")
    assert read_lines(path) == [{"a": 1}, {"b": 2}]
    assert "ended with status 3: no" in str(read_answer(RuntimeName.ONNXRUNTIME, deep(tmp_path / "answer"), 3, "no"))
    (tmp_path / "trial.json").write_text(DEEP[:4000], encoding="utf-8")
    assert Place(tmp_path).unfinished() is not None


def test_an_event_nested_too_deep_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        event_data(SimpleNamespace(data_json=DEEP, kind="x"))
