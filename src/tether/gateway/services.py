"""What the gateway stands in front of: skills, a planner, an executor, and somebody who can verify effects."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tether.agent.calls import Executor, Fact, Value
from tether.agent.domain import Domain
from tether.errors import Fault, InvalidInputError
from tether.gateway.records import EffectVerifier


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter, inclusive bounds, in `unit`."""

    name: str
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class SkillInfo:
    """A skill as others see it. version: raised with each change of its declaration."""

    name: str
    version: int
    doc: str
    parameters: tuple[ParameterInfo, ...]
    time_limit_s: float


@dataclass(frozen=True)
class Step:
    """One step of a plan: a call to make."""

    skill: str
    parameters: Mapping[str, float]


class Catalogue(Protocol):
    """The skills there are, and plans made of them. Safe to be called from several threads."""

    def skills(self) -> Sequence[SkillInfo]:
        """Those that are registered."""

    def register(self, declaration: str) -> SkillInfo:
        """Prove and register a declaration (YAML). Raises InvalidInputError with the reason of a refusal."""

    def deadline_s(self, task: str) -> float:
        """The declared end-to-end deadline of a task. Raises InvalidInputError where there is none of that name."""

    def plan(self, task: str, facts: Mapping[str, Value]) -> Sequence[Step]:
        """Steps that lead from `facts` to the task's goal. Raises InvalidInputError where there are none, and why."""


@dataclass(frozen=True)
class Services:
    """One robot's. verifier: None where nobody can verify effects; then unknown outcomes stay unknown.

    domain: that whole tasks are run by; None where there are none. facts: what the sensors say now, waited for so many
    seconds; None where this process hears none.
    """

    executor: Executor
    catalogue: Catalogue
    verifier: EffectVerifier | None = None
    domain: Callable[[], Domain] | None = None
    facts: Callable[[float], tuple[Fact, ...]] | None = None


def load_services(name: str) -> Services:
    """Services that a function `MODULE:FUNCTION` without arguments makes. InvalidInputError where there is none."""
    module_name, _, function_name = name.partition(":")
    try:
        factory: Callable[[], object] = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError("services", [Fault(name, str(error), "MODULE:FUNCTION")]) from error
    made = factory()
    if not isinstance(made, Services):
        raise InvalidInputError("services", [Fault(name, type(made).__name__, "tether.gateway.services.Services")])
    return made


def parameter_faults(skill: SkillInfo, parameters: Mapping[str, float]) -> list[Fault]:
    """What is wrong with a call's parameters: all of it."""
    known = {parameter.name: parameter for parameter in skill.parameters}
    faults = [Fault(f"parameters: {name}", "missing", f"a number in {p.unit}") for name, p in known.items()
              if name not in parameters]  # fmt: skip
    for name, value in parameters.items():
        parameter = known.get(name)
        if parameter is None:
            faults.append(Fault(f"parameters: {name}", "an unknown name", f"one of {', '.join(known) or 'none'}"))
        elif not parameter.low <= value <= parameter.high:  # also not a number
            expected = f"within [{parameter.low:g}, {parameter.high:g}] {parameter.unit}".rstrip()
            faults.append(Fault(f"parameters: {name}", f"{value:g}", expected))
    return faults
