"""Tables of every key of config/, made from the dataclasses that read the files.

`python -m tether.config_docs docs/configuration.md` brings the tables of that page up to date.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from tether.bridge.arbiter import ArbiterConfig
from tether.faults.table import FaultTable
from tether.fusion.classic_config import ClassicConfig
from tether.ingest.looking import LookingConfig
from tether.motion.config import MotionConfig
from tether.rewards.config import RewardConfig
from tether.safety.settings import SafetySettings
from tether.skills import SkillTable
from tether.world.profile import Profile
from tether.world.task import Task

SCHEMAS: dict[str, type] = {
    "profile": Profile,
    "task": Task,
    "safety": SafetySettings,
    "motion": MotionConfig,
    "classic": ClassicConfig,
    "arbiter": ArbiterConfig,
    "looking": LookingConfig,
    "rewards": RewardConfig,
    "skills": SkillTable,
    "faults": FaultTable,
}
"""Name of a table of the page → dataclass of the file."""

_KINDS = {float: "number", int: "whole number", str: "text", bool: "true or false"}
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a file: its path with dots, what it takes, its bounds and unit, and what it means."""

    path: str
    kind: str
    bounds: str
    doc: str


def keys(schema: type, prefix: str = "") -> Iterator[Key]:
    """Every key of a file read as `schema`, in the order of its fields; `NAME` and `[]` stand for what a file adds."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        if not field.init:
            continue
        path, nested = _nested(f"{prefix}{field.name}", hints[field.name])
        if nested is not None:
            yield from keys(nested, f"{path}.")
        else:
            yield Key(path, _kind(hints[field.name]), _bounds(field), _doc(field))


def table(schema: type) -> str:
    """The keys as a Markdown table."""
    lines = ["| key | takes | within | meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| `{key.path}` | {key.kind} | {key.bounds} | {key.doc} |" for key in keys(schema)]
    return "\n".join(lines) + "\n"


def updated(page: str) -> str:
    """The page with the tables between its `<!-- table: NAME -->` and `<!-- end -->` made anew."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{table(SCHEMAS[block[2]])}\n{block[3]}", page)


def _nested(path: str, hint: Any) -> tuple[str, type | None]:
    """The path of a field and the dataclass its content is read as, None where it is a plain value."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (hint,) = (argument for argument in arguments if argument is not type(None))
    elif origin is dict:
        path, hint = f"{path}.NAME", arguments[1]
    elif origin is tuple and dataclasses.is_dataclass(arguments[0]):
        path, hint = f"{path}[]", arguments[0]
    is_record = isinstance(hint, type) and dataclasses.is_dataclass(hint)
    return path, hint if is_record else None


def _kind(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return f"list of {_kind(arguments[0])}"
    if origin is tuple:
        return f"{len(arguments)} × {_kind(arguments[0])}"
    if origin is dict:
        return _kind(arguments[1])
    if origin in (typing.Union, types.UnionType):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{_name(member)}`" for member in hint)
    return _KINDS[hint]


def _name(member: Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name


def _bounds(field: dataclasses.Field[Any]) -> str:
    low, high, unit = (field.metadata.get(name) for name in ("low", "high", "unit"))
    if low is None and high is None:
        return ""
    return f"{low:g} … {high:g} {unit}".rstrip()


def _doc(field: dataclasses.Field[Any]) -> str:
    doc = str(field.metadata.get("doc", "")).replace("|", "\\|")
    if field.default is dataclasses.MISSING:
        return doc
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return "; ".join(part for part in (doc, f"may be left out: {default!r}") if part)


def main(argv: Sequence[str] | None = None) -> int:
    """Bring the tables of the page that is named up to date."""
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1:
        sys.stderr.write("usage: python -m tether.config_docs PAGE.md\n")
        return 2
    page = Path(words[0])
    page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
