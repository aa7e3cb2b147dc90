"""Values from other people's YAML do not grow when they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tether.brief import brief
from tether.config import bounded, load
from tether.errors import InvalidInputError
from tether.launch.errors import SubstitutionError
from tether.launch.parameters import evaluate
from tether.launch.substitution import Scope, parse

LISTS = "".join(f", &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 8))
LISTS = f"[&l0 [x]{LISTS}]"


@dataclass(frozen=True)
class Settings:
    gain: float = bounded(0.0, 1.0)


@pytest.mark.parametrize(
    "value",
    [yaml.safe_load(LISTS), 16**5000, "x" * 10**6, {"a": 16**5000}, {10**400: 1}],
    ids=["aliases", "number", "text", "number in it", "number as key"],
)
def test_whatever_it_is_it_is_shown_in_one_line(value: Any) -> None:
    assert 0 < len(brief(value)) <= 60


def test_ordinary_values_are_shown_as_python_writes_them() -> None:
    assert [brief(v) for v in (1, -2.5, "x", [1, 2], {"a": None}, True)] == [
        *("1", "-2.5", "'x'", "[1, 2]", "{'a': None}", "True")
    ]


@pytest.mark.parametrize(
    "text",
    [f"gain: {LISTS}", f"gain: 0.5\nother: {LISTS}", f"gain: 0.5\n{'k' * 100_000}: 1", "0x" + "f" * 5000],
)
def test_a_configuration_file_that_grows_is_refused_in_few_words(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError) as caught:
        load(file, Settings)
    assert len(str(caught.value)) < 1500


def test_a_parameter_that_grows_is_refused_in_few_words(tmp_path: Path) -> None:
    with pytest.raises(SubstitutionError, match="is no ROS parameter") as caught:
        evaluate("p", LISTS, parse(LISTS), None, Scope({}, {}, tmp_path))
    assert len(str(caught.value)) < 1500
