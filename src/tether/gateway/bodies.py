"""What is said to the gateway over HTTP, with bounds; unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Field, StrictBool

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,79}$"
SKILL = r"^[a-z][a-z0-9_]{0,63}$"
_STRICT = ConfigDict(extra="forbid")
Name = Annotated[str, Field(pattern=NAME, max_length=100)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
StrictNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A text of digits is a text."""
FactValues = Annotated[
    dict[str, StrictBool | StrictNumber | Annotated[str, Field(max_length=1000)]], Field(max_length=1000)
]
Seconds = Annotated[float, Field(gt=0.0, le=86_400.0, allow_inf_nan=False)]


@dataclass
class CallBody:
    """Run a skill once. The same call_id again is the same call: it is not run a second time."""

    __pydantic_config__ = _STRICT

    task_id: Name
    skill: Annotated[str, Field(pattern=SKILL)]
    timeout_s: Seconds
    parameters: Annotated[dict[str, Finite], Field(max_length=64)] = field(default_factory=dict)
    call_id: Name | None = None


@dataclass
class TaskBody:
    """Open a task with an end-to-end deadline, which none of its calls exceeds.

    task: one of the domain. Its declared deadline stands where timeout_s is missing, and timeout_s may not exceed it.
    """

    __pydantic_config__ = _STRICT

    timeout_s: Seconds | None = None
    task_id: Name | None = None
    task: Annotated[str, Field(pattern=SKILL)] | None = None


@dataclass
class RunBody:
    """Run a whole task of the domain. facts: what is true now, where the gateway hears no sensors.

    timeout_s: end to end, at most the declared deadline, which stands where it is missing.
    """

    __pydantic_config__ = _STRICT

    task: Annotated[str, Field(pattern=SKILL)]
    parameters: Annotated[dict[str, Finite], Field(max_length=64)] = field(default_factory=dict)
    facts: FactValues | None = None
    timeout_s: Seconds | None = None
    task_id: Annotated[str, Field(pattern=RUN_NAME, max_length=80)] | None = None
    """Shorter than other names: call ids are made of it."""


@dataclass
class SkillBody:
    """A skill's declaration in YAML, to be proved and registered."""

    __pydantic_config__ = _STRICT

    declaration: Annotated[str, Field(min_length=1, max_length=100_000)]


@dataclass
class PlanBody:
    """A task to plan, and what is true now."""

    __pydantic_config__ = _STRICT

    task: Annotated[str, Field(pattern=SKILL)]
    facts: FactValues
