"""docs/configuration.md says what the dataclasses that read config/ say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tether.config import bounded
from tether.config_docs import SCHEMAS, Key, keys, table, updated

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


@dataclass(frozen=True)
class Inner:
    low_m: tuple[float, float] = bounded(-1.0, 1.0, unit="m", doc="a | b")


@dataclass(frozen=True)
class Outer:
    by_name: dict[str, Inner]
    count: int = bounded(1, 5, default=3)
    items: tuple[Inner, ...] = ()
    words: tuple[str, ...] = ()


def test_tables_of_the_page_are_those_of_the_schemas() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert updated(text) == text, "run: .venv/bin/python -m tether.config_docs docs/configuration.md"


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_of_every_schema_is_named_in_the_page(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"<!-- table: {name} -->" in text
    missing = [key.path for key in keys(SCHEMAS[name]) if f"`{key.path}`" not in text]
    assert not missing


def test_every_file_of_config_is_named_in_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    config = PAGE.parents[1] / "config"
    files = [path.relative_to(config) for path in config.rglob("*.yaml")]
    assert files
    named = [str(f) if len(f.parts) == 1 else f"{f.parts[0]}/*.yaml" for f in files]
    assert all(f"`{name}`" in text for name in named)


def test_nested_keys_are_listed_with_bounds_units_and_defaults() -> None:
    listed = list(keys(Outer))
    assert Key("count", "whole number", "1 … 5", "may be left out: 3") in listed
    assert Key("items[].low_m", "2 × number", "-1 … 1 m", "a \\| b") in listed
    assert Key("by_name.NAME.low_m", "2 × number", "-1 … 1 m", "a \\| b") in listed
    assert any(key.path == "words" and key.kind == "list of text" for key in listed)


def test_a_pipe_in_a_meaning_does_not_end_a_cell() -> None:
    row = next(line for line in table(Inner).splitlines() if "low_m" in line)
    assert row.replace("\\|", "").count("|") == 5
