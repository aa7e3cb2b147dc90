"""Facts of the world and conditions on them: what is known, since when, and what a condition still lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tether.agent.calls import Fact
from tether.errors import Fault, InvalidInputError

_LITERAL = re.compile(r"(not )?([a-z][a-z0-9_]*)\Z")

Facts = Mapping[str, Fact]
"""Facts by name. One that is missing is not known, which is neither true nor false."""


@dataclass(frozen=True, order=True)
class Literal:
    """A fact and whether it is to hold."""

    name: str
    wanted: bool = True

    def __str__(self) -> str:
        return self.name if self.wanted else f"not {self.name}"


Condition = tuple[Literal, ...]
"""All of it must hold."""


def parse_condition(texts: Iterable[str], where: str) -> Condition:
    """Literals written `name` or `not name`; raises InvalidInputError naming every one that is neither."""
    faults, literals = [], []
    for text in texts:
        match = _LITERAL.match(text)
        if match is None:
            faults.append(Fault(where, repr(text), "a fact's name, or `not` and its name"))
        else:
            literals.append(Literal(match[2], match[1] is None))
    if faults:
        raise InvalidInputError("condition", faults)
    return tuple(literals)


@dataclass(frozen=True)
class Unmet:
    """A literal that does not hold. fact: what is known instead; None where nothing is, or nothing fresh enough."""

    literal: Literal
    fact: Fact | None

    def __str__(self) -> str:
        if self.fact is None:
            return f"{self.literal} (not known)"
        return f"{self.literal} (found {self.fact.value!r} by {self.fact.source} at {self.fact.stamp_ns} ns)"


def unmet(condition: Condition, facts: Facts, now_ns: int, max_age_ns: Mapping[str, int]) -> tuple[Unmet, ...]:
    """What of `condition` does not hold at `now_ns`. max_age_ns: fact → age from which it counts as not known."""
    missing = []
    for literal in condition:
        fact = facts.get(literal.name)
        if fact is not None and now_ns - fact.stamp_ns > max_age_ns[literal.name]:
            fact = None
        if fact is None or fact.value is not literal.wanted:
            missing.append(Unmet(literal, fact))
    return tuple(missing)
