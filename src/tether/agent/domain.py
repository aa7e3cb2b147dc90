"""A domain: facts, task skills and tasks that fit together, and what follows from what in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from tether.agent.declaration import OPERATOR, AgentTask, DomainSpec, Method, Parameter, TaskSkill
from tether.agent.facts import Condition, Literal
from tether.config import load
from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path
from tether.signing.policy import Trust, read_trusted, required_trust
from tether.signing.statement import Kind

State = Mapping[str, bool]
"""What is known of the facts in a proof; one that is missing is not known."""


@dataclass(frozen=True)
class Domain:
    """See the module. Made by `load_domain`, which checks names; what it means is proved in `tether.agent.proof`."""

    spec: DomainSpec
    skills: Mapping[str, TaskSkill]
    tasks: Mapping[str, AgentTask]
    folder: Path

    @cached_property
    def max_age_ns(self) -> Mapping[str, int]:
        """Fact → age from which it is no longer known."""
        return {name: round(fact.max_age_s * 1e9) for name, fact in self.spec.facts.items()}

    def closure(self, literals: Iterable[Literal]) -> dict[str, bool]:
        """What is known where `literals` hold, with all that they imply. Raises ValueError where they contradict."""
        known: dict[str, bool] = {}
        todo = list(literals)
        while todo:
            literal = todo.pop()
            if known.setdefault(literal.name, literal.wanted) is not literal.wanted:
                raise ValueError(f"{literal.name} both holds and does not")
            for follows in self._follows[literal]:
                if known.get(follows.name) is not follows.wanted:
                    todo.append(follows)
        return known

    def after(self, state: State, literals: Iterable[Literal]) -> dict[str, bool]:
        """The state once `literals` hold: they and what they imply replace what was known."""
        return {**state, **self.closure(literals)}

    def method(self, task: AgentTask, state: State) -> Method | None:
        """The first method of `task` whose condition is known to hold."""
        for method in task.methods.values():
            if not lacking(method.condition, state):
                return method
        return None

    def flattened(self, task: AgentTask, method: Method) -> tuple[str, ...]:
        """The skills of a method in order, other tasks taken apart by their first method."""
        return tuple(self._flat(method))

    def _flat(self, method: Method) -> Iterator[str]:
        for step in method.steps:
            if step in self.skills:
                yield step
            else:
                yield from self._flat(next(iter(self.tasks[step].methods.values())))

    @cached_property
    def _follows(self) -> Mapping[Literal, tuple[Literal, ...]]:
        follows: dict[Literal, list[Literal]] = {
            Literal(name, wanted): [] for name in self.spec.facts for wanted in (True, False)
        }
        for name, fact in self.spec.facts.items():
            for other in fact.implies:
                follows[Literal(name)].append(Literal(other))
                follows[Literal(other, False)].append(Literal(name, False))
        for group in self.spec.exclusive:
            for name in group:
                follows[Literal(name)] += [Literal(other, False) for other in group if other != name]
        return {literal: tuple(found) for literal, found in follows.items()}


def lacking(condition: Condition, state: State) -> Condition:
    """The literals of `condition` that are not known to hold in `state`."""
    return tuple(literal for literal in condition if state.get(literal.name) is not literal.wanted)


def load_domain(folder: Path | None = None) -> Domain:
    """Read domain.yaml, skills/*.yaml and tasks/*.yaml of `folder`, those that ship where it is None.

    What ships is attested with the package. Skills of another folder are read from bytes whose signatures are as
    trusted as $TETHER_TRUST asks for. Raises InvalidInputError with every fault of every file, signatures among them.
    """
    where = resource_path("config", "agent") if folder is None else folder
    errors: list[InvalidInputError] = []
    skills: dict[str, TaskSkill] = {}
    tasks: dict[str, AgentTask] = {}
    spec: DomainSpec | None = None
    try:
        spec = load(where / "domain.yaml", DomainSpec)
    except InvalidInputError as error:
        errors.append(error)
    for path in sorted((where / "skills").glob("*.yaml")):
        _read_named(path, TaskSkill, skills, errors, signed=folder is not None)
    for path in sorted((where / "tasks").glob("*.yaml")):
        _read_named(path, AgentTask, tasks, errors, signed=False)
    faults = [fault for error in errors for fault in error.faults]
    if spec is not None:
        stems = {path.stem for kind in ("skills", "tasks") for path in (where / kind).glob("*.yaml")}
        faults += list(misfits(spec, skills, tasks, stems - skills.keys() - tasks.keys()))
    if faults or spec is None:
        raise InvalidInputError(f"agent's domain in {where}", faults, "docs/agent.md says what the files hold")
    return Domain(spec, skills, tasks, where)


def parameters_of(declared: Iterable[Parameter], given: Mapping[str, float], what: str) -> dict[str, float]:
    """Every declared parameter, from `given` or at its default; InvalidInputError names all that do not fit."""
    known = {parameter.name: parameter for parameter in declared}
    faults = [
        Fault(name, "a parameter", f"one of {', '.join(known) or 'none at all'}") for name in given if name not in known
    ]
    values = {name: float(given.get(name, parameter.default)) for name, parameter in known.items()}
    faults += [
        Fault(name, repr(value), f"within [{known[name].low:g}, {known[name].high:g}] {known[name].unit}".rstrip())
        for name, value in values.items()
        if not known[name].low <= value <= known[name].high
    ]
    if faults:
        raise InvalidInputError(f"parameters of {what}", faults)
    return values


_Named = TypeVar("_Named", TaskSkill, AgentTask)


def _read_named(
    path: Path, schema: type[_Named], into: dict[str, _Named], errors: list[InvalidInputError], *, signed: bool
) -> None:
    try:
        record = _read_signed(path, schema) if signed else load(path, schema)
        if record.name != path.stem:
            raise InvalidInputError(str(path), [Fault(f"{path}: name", repr(record.name), repr(path.stem))])
        into[record.name] = record
    except InvalidInputError as error:
        errors.append(error)


def _read_signed(path: Path, schema: type[_Named]) -> _Named:
    """The record in the very bytes that were verified: a copy that nobody else can write to is what is parsed."""
    if required_trust() is Trust.ANY:
        return load(path, schema)
    data = read_trusted(path, Kind.SKILL)
    with TemporaryDirectory(prefix="tether-skill-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        return load(copy, schema)


def misfits(
    spec: DomainSpec, skills: Mapping[str, TaskSkill], tasks: Mapping[str, AgentTask], unread: Set[str]
) -> Iterator[Fault]:
    """Names that nothing stands behind, limits above the cap, and tasks that contain themselves.

    unread: names of files that have faults of their own already.
    """

    def facts(where: str, condition: Iterable[str]) -> Iterator[Fault]:
        known = ", ".join(spec.facts)
        names = (text.removeprefix("not ") for text in condition)
        yield from (Fault(where, repr(name), f"a fact of {known}") for name in names if name not in spec.facts)

    for name, fact in spec.facts.items():
        yield from facts(f"{name}: implies", fact.implies)
    yield from facts("guards", spec.guards)
    for group in spec.exclusive:
        yield from facts("exclusive", group)
    for skill in skills.values():
        yield from facts(f"{skill.name}: precondition", skill.precondition)
        yield from facts(f"{skill.name}: effect", skill.effect)
        if skill.limit_s > spec.cap_s:
            yield Fault(
                f"{skill.name}: limit_s", f"{skill.limit_s:g}", f"at most the domain's cap_s = {spec.cap_s:g} s"
            )
        for mode_name, mode in skill.failures.items():
            where = f"{skill.name}: failures: {mode_name}"
            yield from facts(f"{where}: when", mode.when)
            for step in mode.recovery:
                if step not in skills and step != OPERATOR and step not in unread:
                    yield Fault(f"{where}: recovery", repr(step), f"{OPERATOR}, or a skill of {', '.join(skills)}")
    for task in tasks.values():
        yield from facts(f"{task.name}: start", task.start)
        yield from facts(f"{task.name}: goal", task.goal)
        if task.name in skills:
            yield Fault(f"{task.name}: name", "the name of a skill, too", "a name of its own")
        for method_name, method in task.methods.items():
            yield from facts(f"{task.name}: {method_name}: when", method.when)
            for step in method.steps:
                if step not in skills and step not in tasks and step not in unread:
                    yield Fault(f"{task.name}: {method_name}: steps", repr(step), "a skill or a task")
        if _contains_itself(task.name, tasks):
            yield Fault(f"{task.name}: methods", "the task itself, at some depth", "a task that comes to an end")


def _contains_itself(name: str, tasks: Mapping[str, AgentTask]) -> bool:
    seen: set[str] = set()
    todo = [name]
    while todo:
        task = tasks.get(todo.pop())
        for method in task.methods.values() if task is not None else ():
            if name in method.steps:
                return True
            todo += [step for step in method.steps if step not in seen]
            seen.update(method.steps)
    return False
