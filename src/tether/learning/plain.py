"""Spaces and configurations as plain data for the files they are kept in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from tether.config import parse
from tether.learning.spaces import Form, HybridSpace

T = TypeVar("T")


def config_to_plain(config: Any) -> Any:
    """A dataclass of numbers, enums, tuples and dataclasses as JSON can hold it."""
    if dataclasses.is_dataclass(config):
        return {f.name: config_to_plain(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, Enum):
        return config.value
    if isinstance(config, tuple):
        return [config_to_plain(item) for item in config]
    return config


def config_of(plain: Any, schema: type[T]) -> T:
    """The dataclass again; raises InvalidInputError."""
    return parse(plain, schema, "the file's configuration")


def space_to_plain(space: HybridSpace) -> dict[str, Any]:
    """Every field of the space; floats keep all their digits."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(space):
        value = getattr(space, field.name)
        plain[field.name] = value.tolist() if isinstance(value, np.ndarray) else config_to_plain(value)
    return plain


def space_of(plain: Mapping[str, Any]) -> HybridSpace:
    """The space again."""
    vectors = {name: np.asarray(plain[name], dtype=np.float64) for name in ("low", "high", "centre", "scale")}
    return HybridSpace(
        names=tuple(plain["names"]),
        sizes=tuple(plain["sizes"]),
        **vectors,
        form=Form(plain["form"]),
        keys=tuple(plain["keys"]),
        inner_keys=tuple(plain["inner_keys"]),
        shapes=tuple(tuple(shape) for shape in plain["shapes"]),
        start=int(plain["start"]),
    )
