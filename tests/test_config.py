"""Configuration is strict, and says everything that is wrong at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

from tether.brief import brief
from tether.config import bounded, load, parse, read_yaml
from tether.errors import Fault, InvalidInputError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    gain: float = bounded(0.0, 1.0, unit="1")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    pair: tuple[float, float]
    colour: Colour = Colour.RED
    counts: tuple[int, ...] = ()
    table: dict[str, Inner] = field(default_factory=dict)
    limit: float | None = None
    on: bool = False


GOOD = {"name": "x", "inner": {"gain": 0.5}, "pair": [1, 2.5]}


def faults(data: object) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        parse(data, Outer, "test.yaml")
    return [str(f) for f in caught.value.faults]


def test_good_data_becomes_the_dataclass_with_integers_as_floats() -> None:
    outer = parse({**GOOD, "colour": "blue", "counts": [1, 2], "table": {"a": {"gain": 1}}}, Outer, "test.yaml")
    assert outer == Outer("x", Inner(0.5), (1.0, 2.5), Colour.BLUE, (1, 2), {"a": Inner(1.0)})


def test_all_faults_are_reported_together() -> None:
    found = faults({"name": 3, "inner": {"gain": 2.0, "gian": 1}, "pair": [1], "colour": "green"})
    assert len(found) == 5
    assert "test.yaml: inner: gian: found an unknown key, expected one of gain" in found


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, -(16**5000), True, "0.5", None, [0.5]], ids=brief
)
def test_what_is_no_finite_number_is_refused_for_a_number(value: object) -> None:
    assert len(faults({**GOOD, "inner": {"gain": value}})) == 1


@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_only_true_and_false_are_booleans(value: object) -> None:
    assert len(faults({**GOOD, "on": value})) == 1


def test_missing_key_without_default_is_named() -> None:
    assert any("name" in f and "nothing" in f for f in faults({"inner": {"gain": 0}, "pair": [1, 2]}))


def test_bounds_are_inclusive_and_named_with_their_unit() -> None:
    assert parse({**GOOD, "inner": {"gain": 1}}, Outer, "t").inner.gain == 1.0
    assert "within [0, 1] 1" in faults({**GOOD, "inner": {"gain": 1.0001}})[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "given twice"),
        ("a: [1\n", ":2"),
        ("\x00", "valid YAML"),
        ("!!python/object/apply:os.system ['true']", "valid YAML"),
    ],
)
def test_broken_yaml_is_refused_by_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=expected):
        load(path, Outer)


def test_missing_file_is_a_named_fault(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml", Outer)


def test_a_list_as_a_key_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "list_key.yaml"
    path.write_text("a: 1\n? [b, c]\n: 2\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"list_key\.yaml:2"):
        read_yaml(path)


NO_VALUES = (
    'a: !!int ""', 'a: !!int "_"', 'a: !!float ""', "a: !!bool foo", "a: !!timestamp foo", "a: !!set [1]",
    "a: 1" + ":1" * 2000 + ":1.5",
)  # fmt: skip


@pytest.mark.parametrize("text", ["[" * 5000, "camera: " + "9" * 6000, "a: 2026-13-45", *NO_VALUES])
def test_what_breaks_the_yaml_parser_itself_is_a_named_fault(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"odd\.yaml"):
        read_yaml(path)


def test_a_pipe_and_a_folder_are_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    for name in ("pipe.yaml", "folder.yaml"):
        with pytest.raises(InvalidInputError, match=f"{name}: found a folder, a pipe"):
            read_yaml(tmp_path / name)


@dataclass(frozen=True)
class Ruled:
    low: float
    high: float
    gain: float = bounded(0.0, 1.0, default=0.5)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInputError("ruled", [Fault("low", f"{self.low}", "at most high")])


def test_rules_across_fields_are_held_wherever_their_own_fields_are_fine() -> None:
    def count(data: object) -> int:
        with pytest.raises(InvalidInputError) as caught:
            parse(data, Ruled, "t")
        return len(caught.value.faults)

    assert count({"low": 2, "high": 1}) == 1
    assert count({"low": 2, "high": 1, "gain": 5, "other": 1}) == 3
    assert count({"low": 2, "high": "x", "gain": 5}) == 2


def test_aliases_of_aliases_are_not_written_out(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path = tmp_path / "aliases.yaml"
    path.write_text("\n".join([*lines, "inner: *a11"]), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="inner: found"):
        load(path, Outer)
