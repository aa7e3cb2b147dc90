"""The primitive table: names, parameters, bounds and units of the continuous half of hybrid actions.

The table is data (config/skills.yaml) and its hash is part of every model manifest: a model trained against another
table is refused. Order of primitives and of their parameters is a contract.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tether.arrays import read_only
from tether.config import bounded, load
from tether.contracts import F64, Primitive
from tether.errors import Fault, InvalidInputError


@dataclass(frozen=True)
class Param:
    """One continuous parameter, inclusive bounds low ≤ value ≤ high, in SI units."""

    name: str
    low: float
    high: float
    default: float
    unit: str = bounded(default="")
    doc: str = bounded(default="")

    def __post_init__(self) -> None:
        if not self.low <= self.default <= self.high:
            fault = Fault(self.name, f"default {self.default}", f"within [{self.low}, {self.high}]")
            raise InvalidInputError("parameter", [fault])


@dataclass(frozen=True)
class PrimitiveSpec:
    """A primitive's parameters, in order."""

    params: tuple[Param, ...]
    doc: str = bounded(default="")

    @cached_property
    def low(self) -> F64:
        """(n,) lower bounds, read-only."""
        return read_only(np.array([p.low for p in self.params]))

    @cached_property
    def high(self) -> F64:
        """(n,) upper bounds, read-only."""
        return read_only(np.array([p.high for p in self.params]))

    @cached_property
    def default(self) -> F64:
        """(n,) defaults, read-only."""
        return read_only(np.array([p.default for p in self.params]))

    def index(self, name: str) -> int:
        """Position of the parameter `name`; KeyError names the ones there are."""
        for i, param in enumerate(self.params):
            if param.name == name:
                return i
        raise KeyError(f"no parameter {name!r}; there are {', '.join(p.name for p in self.params)}")


@dataclass(frozen=True)
class SkillTable:
    """Every primitive with its parameters."""

    primitives: dict[str, PrimitiveSpec]

    def __post_init__(self) -> None:
        expected = [p.name.lower() for p in Primitive]
        if list(self.primitives) != expected:
            fault = Fault("primitives", ", ".join(self.primitives), "in this order: " + ", ".join(expected))
            raise InvalidInputError("skill table", [fault], "the order is a contract with trained models")

    def __getitem__(self, primitive: Primitive) -> PrimitiveSpec:
        return self.primitives[primitive.name.lower()]

    @cached_property
    def sha256(self) -> str:
        """Hash over names, order, bounds, defaults and units (not over the documentation)."""
        plain = {
            name: [[p.name, p.low, p.high, p.default, p.unit] for p in spec.params]
            for name, spec in self.primitives.items()
        }
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()

    def checked(self, primitive: Primitive, params: F64) -> F64:
        """`params` if they fit; raises InvalidInputError naming each that is missing, not finite or out of bounds."""
        spec = self[primitive]
        name = primitive.name.lower()
        values = np.asarray(params, dtype=np.float64)
        if values.shape != (len(spec.params),):
            fault = Fault(f"{name}.params", f"shape {values.shape}", f"shape ({len(spec.params)},)")
            raise InvalidInputError("hybrid action", [fault])
        faults = [
            Fault(f"{name}.{p.name}", repr(float(v)), f"within [{p.low:g}, {p.high:g}] {p.unit}".rstrip())
            for p, v in zip(spec.params, values, strict=True)
            if not p.low <= v <= p.high
        ]
        if faults:
            raise InvalidInputError("hybrid action", faults, "bounds are in config/skills.yaml")
        return values

    def clipped(self, primitive: Primitive, **values: float) -> F64:
        """Parameters by name, the rest at their defaults, each clipped to its bounds. Non-finite values are refused."""
        spec = self[primitive]
        params = spec.default.copy()
        for name, value in values.items():
            if not np.isfinite(value):
                fault = Fault(f"{primitive.name.lower()}.{name}", repr(value), "a finite number")
                raise InvalidInputError("hybrid action", [fault])
            params[spec.index(name)] = value
        clipped: F64 = np.clip(params, spec.low, spec.high)
        return clipped


def load_skill_table(path: Path) -> SkillTable:
    """Read and check config/skills.yaml."""
    return load(path, SkillTable)
