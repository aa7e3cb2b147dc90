"""What a task skill, a task and a domain of facts say of themselves: the YAML of config/agent, read strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tether.agent.facts import Condition, parse_condition
from tether.config import bounded
from tether.contracts import Primitive
from tether.errors import Fault, InvalidInputError

OPERATOR = "operator"
"""As a recovery: a person has to decide."""
LIMIT_OVER_MEAN = 3.0
"""A skill's time limit is at most this many times its measured mean."""

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_ENTRY = re.compile(r"([\w.]+|[\w./-]+\.py):[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Parameter:
    """A parameter with its inclusive bounds, in SI units."""

    name: str
    low: float
    high: float
    default: float
    unit: str
    doc: str = bounded(default="")

    def __post_init__(self) -> None:
        if not self.low <= self.default <= self.high:
            fault = Fault(self.name, f"default {self.default:g}", f"within [{self.low:g}, {self.high:g}]")
            raise InvalidInputError("parameter", [fault])


@dataclass(frozen=True)
class Needs:
    """What the machine must have."""

    memory_mb: int = bounded(1, 1_000_000, unit="MB", doc="free, measured when the way is chosen")
    camera: bool = bounded(default=False)
    fp16: bool = bounded(default=False, doc="arithmetic in half precision")
    gpu: bool = bounded(default=False)


@dataclass(frozen=True)
class Way:
    """One way of doing a skill, with its code. entry: `package.module:function`, or `file.py:function` beside the YAML,
    which is executed only where its signature is as trusted as $TETHER_TRUST asks for."""

    entry: str
    needs: Needs
    remembers: bool = bounded(default=False, doc="goes on with what it remembers in the next skill with the same entry")
    doc: str = bounded(default="")

    def __post_init__(self) -> None:
        if not _ENTRY.match(self.entry):
            raise InvalidInputError(
                "way", [Fault("entry", repr(self.entry), "package.module:function or file.py:name")]
            )


@dataclass(frozen=True)
class FailureMode:
    """How a skill fails: what the facts say then, and the skills that bring its precondition about again.

    Modes are tried in their order; the first whose `when` holds names the failure, and the last has an empty one.
    """

    doc: str
    when: tuple[str, ...]
    recovery: tuple[str, ...] = bounded(doc="names of skills, in order; `operator` alone: a person decides")
    early: bool = bounded(default=False, doc="ends the attempt as soon as it is seen, else at the time limit")

    def __post_init__(self) -> None:
        if OPERATOR in self.recovery and len(self.recovery) > 1:
            raise InvalidInputError("failure mode", [Fault("recovery", str(self.recovery), "`operator` alone")])
        if self.early and not self.when:
            raise InvalidInputError("failure mode", [Fault("early", "an empty `when`", "facts that are seen")])

    @cached_property
    def condition(self) -> Condition:
        """`when` as literals."""
        return parse_condition(self.when, "when")


@dataclass(frozen=True)
class TaskSkill:
    """A task skill. mean_s: measured; limit_s: at which its worker is killed; ways: by preference, best first."""

    name: str
    ways: dict[str, Way]
    failures: dict[str, FailureMode]
    version: int = bounded(1, 1_000_000)
    doc: str = bounded()
    parameters: tuple[Parameter, ...] = bounded()
    precondition: tuple[str, ...] = bounded()
    effect: tuple[str, ...] = bounded()
    primitives: tuple[str, ...] = bounded(doc="what its policy may choose from; see skills.yaml")
    mean_s: float = bounded(0.01, 600.0, unit="s")
    limit_s: float = bounded(0.01, 600.0, unit="s")
    retries: int = bounded(0, 100, default=3)

    def __post_init__(self) -> None:
        faults = [] if _NAME.match(self.name) else [Fault("name", repr(self.name), "lower case, digits, underscores")]
        if self.limit_s > LIMIT_OVER_MEAN * self.mean_s + 1e-9:
            limit = f"at most {LIMIT_OVER_MEAN:g} x mean_s = {LIMIT_OVER_MEAN * self.mean_s:g} s"
            faults.append(Fault("limit_s", f"{self.limit_s:g}", limit))
        known = [primitive.name.lower() for primitive in Primitive]
        faults += [
            Fault("primitives", repr(p), f"one of {', '.join(known)}") for p in self.primitives if p not in known
        ]
        if not self.ways:
            faults.append(Fault("ways", "none", "at least one"))
        if not self.effect:
            faults.append(Fault("effect", "none", "at least one fact that sensors can verify"))
        if not self.failures or list(self.failures.values())[-1].when or OPERATOR in self.failures:
            faults.append(Fault("failures", ", ".join(self.failures), "modes, the last with an empty `when`"))
        if faults:
            raise InvalidInputError(f"skill {self.name!r}", faults)

    @cached_property
    def requires(self) -> Condition:
        """The precondition as literals."""
        return parse_condition(self.precondition, f"{self.name}: precondition")

    @cached_property
    def achieves(self) -> Condition:
        """The effect as literals."""
        return parse_condition(self.effect, f"{self.name}: effect")


@dataclass(frozen=True)
class Method:
    """One way of taking a task apart. when: on the facts; steps: skills or other tasks, in order."""

    steps: tuple[str, ...]
    when: tuple[str, ...] = ()

    @cached_property
    def condition(self) -> Condition:
        """`when` as literals."""
        return parse_condition(self.when, "when")


@dataclass(frozen=True)
class AgentTask:
    """A task: a node of the hierarchical network. start: what is known of the world when it may begin; methods: tried
    in their order, the first whose `when` holds is taken."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    start: tuple[str, ...]
    goal: tuple[str, ...]
    methods: dict[str, Method]
    deadline_s: float = bounded(1.0, 36_000.0, unit="s", doc="end to end; after it a person is asked")

    def __post_init__(self) -> None:
        faults = [] if _NAME.match(self.name) else [Fault("name", repr(self.name), "lower case, digits, underscores")]
        if not self.methods or not all(method.steps for method in self.methods.values()):
            faults.append(Fault("methods", "none, or one without steps", "at least one, with steps"))
        if not self.goal:
            faults.append(Fault("goal", "none", "facts that sensors can verify"))
        if faults:
            raise InvalidInputError(f"task {self.name!r}", faults)

    @cached_property
    def begins(self) -> Condition:
        """The declared start as literals."""
        return parse_condition(self.start, f"{self.name}: start")

    @cached_property
    def wants(self) -> Condition:
        """The goal as literals."""
        return parse_condition(self.goal, f"{self.name}: goal")


@dataclass(frozen=True)
class FactSpec:
    """A fact. max_age_s: from which age on it is no longer known; implies: facts that hold where it does."""

    doc: str
    max_age_s: float = bounded(0.01, 3600.0, unit="s")
    implies: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdgeRules:
    """When a skill is no longer tried from a state; see `tether.agent.edges`."""

    failures: int = bounded(1, 100, default=4, doc="since its last success, until the edge opens")
    runs: int = bounded(1, 1000, default=10, doc="of tasks, the present one among them, in which failures count")
    cool_s: float = bounded(0.1, 3600.0, unit="s", default=30.0, doc="after which an open edge is tried once")


@dataclass(frozen=True)
class DomainSpec:
    """The facts. exclusive: at most one of each group holds; guards: facts without which nothing runs at all, and
    which only a person brings back."""

    facts: dict[str, FactSpec]
    exclusive: tuple[tuple[str, ...], ...]
    guards: tuple[str, ...]
    cap_s: float = bounded(0.1, 600.0, unit="s", default=8.0, doc="no skill's time limit may be above it")
    edges: EdgeRules = EdgeRules()
