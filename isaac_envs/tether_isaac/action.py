"""Hybrid actions as rows of numbers, since Isaac Lab's runners hand over one tensor.

A row holds a score for each primitive, then the parameters of all of them in [-1, 1]. The highest score chooses; the
parameters of the others do not count. A learner of hybrid actions gives one-hot scores.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tether.contracts import F32, F64, Primitive
from tether.errors import Fault, InvalidInputError
from tether.teacher.actions import Choice


class ActionRows:
    """Reads and writes rows for a table of choices."""

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self.choices = choices
        sizes = [len(choice.names) for choice in choices]
        ends = np.cumsum([len(choices), *sizes]).tolist()
        self._spans = [slice(first, last) for first, last in pairwise(ends)]
        self.size = ends[-1]

    def read(self, row: F32) -> tuple[Primitive, F64]:
        """The primitive of a row (size,) and its parameters in SI units; refuses what is not finite."""
        if row.shape != (self.size,) or not np.isfinite(row).all():
            found = (
                f"shape {row.shape}"
                if row.shape != (self.size,)
                else f"not finite at {np.flatnonzero(~np.isfinite(row))}"
            )
            raise InvalidInputError("action", [Fault("row", found, f"({self.size},) finite numbers")])
        index = int(np.argmax(row[: len(self.choices)]))
        choice = self.choices[index]
        return choice.primitive, choice.from_unit(row[self._spans[index]])

    def write(self, primitive: Primitive, params: F64) -> F32:
        """The row of a primitive and its parameters; those beyond the choice's bounds are drawn to them."""
        names = [choice.primitive for choice in self.choices]
        if primitive not in names:
            raise InvalidInputError("action", [Fault("primitive", primitive.name, ", ".join(p.name for p in names))])
        index = names.index(primitive)
        row = np.zeros(self.size, np.float32)
        row[index] = 1.0
        row[self._spans[index]] = self.choices[index].to_unit(params)
        return row
