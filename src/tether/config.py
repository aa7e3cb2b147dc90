"""YAML to frozen dataclasses, strictly: unknown keys are refused and all faults are reported together.

The dataclass is the schema. Types understood: bool, int, float, str, Path, Enum, Optional, tuple[X, ...],
tuple[X, Y], dict[str, X] and nested dataclasses. Bounds stand in a field's metadata, put there by `bounded`.
There is one default per parameter: the dataclass's. A float field takes integers; a bool is never a number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tether.brief import brief
from tether.errors import Fault, InvalidInputError

T = TypeVar("T")
_MISSING = object()
YAML_DAMAGE = (
    yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError,
)  # fmt: skip
"""What PyYAML raises for a text that is none: its scalars' own errors come as they are (`!!int ""`, the 13th month)."""
_NAMES: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    Path: "a path",
}


def bounded(
    low: float | None = None, high: float | None = None, *, unit: str = "", default: Any = _MISSING, doc: str = ""
) -> Any:
    """A dataclass field with inclusive bounds and a unit; without `default` the key is required in the file."""
    metadata = {"low": low, "high": high, "unit": unit, "doc": doc}
    if default is _MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key written twice instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below, with its line
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {brief(key)} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Parse one YAML file; raises InvalidInputError naming the line for anything that is not readable YAML."""
    try:
        if path.exists() and not path.is_file():  # a pipe would wait for its writer for ever
            raise OSError("a folder, a pipe or a device")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        fault = Fault(str(path), str(error), "a readable UTF-8 YAML file")
        raise InvalidInputError("configuration", [fault], "check the path and the permissions") from error
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        fault = Fault(where, getattr(error, "problem", None) or str(error), "valid YAML")
        raise InvalidInputError("configuration", [fault], "correct the line named") from error
    except YAML_DAMAGE as error:
        deep = isinstance(error, RecursionError)
        found = "lists or mappings nested too deep" if deep else f"a value that cannot be read: {error}"
        raise InvalidInputError("configuration", [Fault(str(path), found, "plain YAML")], "write it out") from error


def plain(value: Any) -> Any:
    """What of a dataclass's content (`dataclasses.asdict`) YAML and JSON can say: maps, lists and single values."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def load(path: Path, schema: type[T]) -> T:
    """Read `path` as an instance of the dataclass `schema`; raises InvalidInputError with every fault in the file."""
    return parse(read_yaml(path), schema, str(path))


def parse(data: Any, schema: type[T], origin: str) -> T:
    """Build `schema` from plain data; `origin` names the source in faults."""
    faults: list[Fault] = []
    value = _build(data, schema, origin, faults)
    if faults:
        raise InvalidInputError(
            f"{origin} as {schema.__name__}", faults, "correct the keys named; docs/configuration.md lists them all"
        )
    return typing.cast(T, value)


def _build(data: Any, schema: Any, where: str, faults: list[Fault]) -> Any:
    if dataclasses.is_dataclass(schema) and isinstance(schema, type):
        return _build_dataclass(data, schema, where, faults)
    origin = typing.get_origin(schema)
    arguments = typing.get_args(schema)
    if origin in (typing.Union, types.UnionType):
        return _build_optional(data, arguments, where, faults)
    if origin is tuple:
        return _build_tuple(data, arguments, where, faults)
    if origin is dict:
        return _build_dict(data, arguments[1], where, faults)
    return _build_scalar(data, schema, where, faults)


def _build_dataclass(data: Any, schema: type, where: str, faults: list[Fault]) -> Any:
    if not isinstance(data, Mapping):
        faults.append(Fault(where, brief(data), f"a mapping with the keys of {schema.__name__}"))
        return None
    hints = typing.get_type_hints(schema)
    fields = {f.name: f for f in dataclasses.fields(schema) if f.init}
    for key in data:
        if key not in fields:
            faults.append(Fault(f"{where}: {_key(key)}", "an unknown key", f"one of {', '.join(sorted(fields))}"))
    values: dict[str, Any] = {}
    before = len(faults)
    for name, spec in fields.items():
        so_far = len(faults)
        if name not in data:
            if spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
                faults.append(Fault(f"{where}: {name}", "nothing", f"a value ({_type_name(hints[name])})"))
            continue
        value = _build(data[name], hints[name], f"{where}: {name}", faults)
        _check_bounds(value, spec, f"{where}: {name}", faults)
        if len(faults) == so_far:
            values[name] = value
    if len(faults) > before:
        _check_rules(schema, values, where, faults)
        return None
    return _made(lambda: schema(**values), schema, where, faults)


def _check_rules(schema: type, values: Mapping[str, Any], where: str, faults: list[Fault]) -> None:
    """Hold the rules of `__post_init__` against the fields that are fine; one that needs another field is left out."""
    check = getattr(schema, "__post_init__", None)
    if check is None:
        return
    partial: Any = object.__new__(schema)
    for name, value in values.items():
        object.__setattr__(partial, name, value)
    with contextlib.suppress(AttributeError):
        _made(lambda: check(partial), schema, where, faults)


def _made(make: Callable[[], Any], schema: type, where: str, faults: list[Fault]) -> Any:
    try:
        return make()
    except InvalidInputError as error:
        faults.extend(Fault(f"{where}: {f.where}", f.found, f.expected) for f in error.faults)
    except (ValueError, ArithmeticError) as error:
        faults.append(Fault(where, str(error), f"a valid {schema.__name__}"))
    return None


def _build_optional(data: Any, arguments: tuple[Any, ...], where: str, faults: list[Fault]) -> Any:
    if data is None and type(None) in arguments:
        return None
    inner = [a for a in arguments if a is not type(None)]
    attempts: list[list[Fault]] = []
    for candidate in inner:
        trial: list[Fault] = []
        value = _build(data, candidate, where, trial)
        if not trial:
            return value
        attempts.append(trial)
    fewest: list[Fault] = min(attempts, key=len)
    faults.extend(fewest)
    return None


def _build_tuple(data: Any, arguments: tuple[Any, ...], where: str, faults: list[Fault]) -> Any:
    if not isinstance(data, list | tuple):
        faults.append(Fault(where, brief(data), "a list"))
        return None
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_build(item, arguments[0], f"{where}[{i}]", faults) for i, item in enumerate(data))
    if len(data) != len(arguments):
        faults.append(Fault(where, f"{len(data)} items", f"{len(arguments)} items"))
        return None
    return tuple(
        _build(item, kind, f"{where}[{i}]", faults) for i, (item, kind) in enumerate(zip(data, arguments, strict=True))
    )


def _build_dict(data: Any, kind: Any, where: str, faults: list[Fault]) -> Any:
    if not isinstance(data, Mapping):
        faults.append(Fault(where, brief(data), "a mapping"))
        return None
    result = {}
    for key, item in data.items():
        if not isinstance(key, str):
            faults.append(Fault(f"{where}: {brief(key)}", brief(key), "a text key"))
            continue
        result[key] = _build(item, kind, f"{where}: {key}", faults)
    return result


def _build_scalar(data: Any, schema: Any, where: str, faults: list[Fault]) -> Any:
    if schema is Any:
        return data
    if schema is float and isinstance(data, int | float) and not isinstance(data, bool):
        try:
            number = float(data)
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf
        if math.isfinite(number):
            return number
        faults.append(Fault(where, brief(data), "a finite number"))
        return None
    if isinstance(schema, type) and issubclass(schema, Enum):
        for member in schema:
            if data == member.value or data == member.name:
                return member
        faults.append(Fault(where, brief(data), f"one of {', '.join(str(m.value) for m in schema)}"))
        return None
    if schema is Path and isinstance(data, str):
        return Path(data)
    exact = isinstance(data, schema) and not (schema is int and isinstance(data, bool))
    if exact:
        return data
    faults.append(Fault(where, brief(data), _type_name(schema)))
    return None


def _check_bounds(value: Any, spec: dataclasses.Field[Any], where: str, faults: list[Fault]) -> None:
    low, high, unit = spec.metadata.get("low"), spec.metadata.get("high"), spec.metadata.get("unit", "")
    numbers = value if isinstance(value, tuple) else (value,)
    for number in numbers:
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        if (low is not None and number < low) or (high is not None and number > high):
            left = "-inf" if low is None else f"{low:g}"
            right = "inf" if high is None else f"{high:g}"
            faults.append(Fault(where, brief(value), f"within [{left}, {right}] {unit}".rstrip()))
            return


def _key(key: Any) -> str:
    return key if isinstance(key, str) and len(key) <= 60 else brief(key)


def _type_name(schema: Any) -> str:
    return _NAMES.get(schema) or str(getattr(schema, "__name__", schema))
