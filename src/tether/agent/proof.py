"""The formal check before registration: what is refused, and why.

Held against every state that skills and their failures can lead to from the tasks' declared starts:
preconditions and effects do not contradict themselves; each precondition comes true somewhere; each method of each task
goes through from its declared start, ends in the goal and fits into the task's deadline by the skills' means; and each
failure's recovery brings the skill's precondition about again, from nothing but that precondition and what the failure
is known by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tether.agent.declaration import OPERATOR, AgentTask, FailureMode, TaskSkill
from tether.agent.domain import Domain, State, lacking
from tether.agent.facts import Condition, Literal
from tether.agent.search import broken_at, reachable_states
from tether.errors import Fault, InvalidInputError


@dataclass(frozen=True)
class Refusal:
    """A skill or task that may not be registered. rule: what it breaks; reason: the counterexample."""

    name: str
    rule: str
    reason: str


def refusals(domain: Domain) -> tuple[Refusal, ...]:
    """Everything that the check finds; empty where the domain holds."""
    found = list(_contradictions(domain))
    if found:
        return tuple(found)  # what follows needs states that can exist
    found += _unreachable(domain)
    for skill in domain.skills.values():
        for name, mode in skill.failures.items():
            found += _recovery(domain, skill, name, mode)
    for task in domain.tasks.values():
        found += _task(domain, task)
    return tuple(found)


def require_proved(domain: Domain) -> None:
    """Raises InvalidInputError with every refusal."""
    found = refusals(domain)
    if found:
        faults = [
            Fault(f"{refusal.name}: {refusal.rule}", refusal.reason, "what docs/agent.md asks") for refusal in found
        ]
        raise InvalidInputError(f"domain in {domain.folder}", faults, "correct the declaration named")


def failed_state(domain: Domain, skill: TaskSkill, mode: FailureMode) -> dict[str, bool]:
    """What is known for certain once `skill` has failed that way: nothing, where the mode catches what is left over."""
    if not mode.when:
        return {}
    return domain.after(domain.closure(skill.requires), mode.condition)


def start_states(domain: Domain) -> list[State]:
    """The declared starts of all tasks, by method."""
    return [method_start(domain, task, name) for task in domain.tasks.values() for name in task.methods]


def method_start(domain: Domain, task: AgentTask, method: str) -> State:
    """What is known where a task begins by one of its methods."""
    return domain.after(domain.closure(task.begins), task.methods[method].condition)


def _contradictions(domain: Domain) -> Iterator[Refusal]:
    conditions: list[tuple[str, str, Condition]] = []
    for skill in domain.skills.values():
        conditions += [(skill.name, "precondition", skill.requires), (skill.name, "effect", skill.achieves)]
        conditions += [(skill.name, f"failure {name}", mode.condition) for name, mode in skill.failures.items()]
    for task in domain.tasks.values():
        conditions += [(task.name, "start", task.begins), (task.name, "goal", task.wants)]
        conditions += [(task.name, f"method {name}", method.condition) for name, method in task.methods.items()]
    for name, what, condition in conditions:
        try:
            domain.closure(condition)
        except ValueError as error:
            text = _text(condition)
            yield Refusal(name, f"its {what} contradicts itself", f"of [{text}] follows that {error}")


def _unreachable(domain: Domain) -> Iterator[Refusal]:
    try:
        states = reachable_states(domain, [*start_states(domain)])
    except ValueError as error:
        yield Refusal("domain", "its states can be searched", str(error))
        return
    for skill in domain.skills.values():
        nearest = min((lacking(skill.requires, state) for state in states), key=len, default=())
        if nearest:
            never = [literal for literal in skill.requires if all(lacking((literal,), state) for state in states)]
            what = f"[{_text(never)}] in none of them" if never else f"[{_text(skill.requires)}] never all at once"
            yield Refusal(
                skill.name,
                "its precondition comes true",
                f"{len(states)} states are reachable from the tasks' starts; found {what}",
            )


def _recovery(domain: Domain, skill: TaskSkill, name: str, mode: FailureMode) -> Iterator[Refusal]:
    if mode.recovery == (OPERATOR,):
        return
    number, step, missing, state = broken_at(domain, failed_state(domain, skill, mode), mode.recovery)
    rule = f"failure {name} has a recovery"
    if number:
        reason = f"step {number} ({step}) needs [{_text(missing)}]; known by then: [{_known(state)}]"
        yield Refusal(skill.name, rule, reason)
        return
    missing = lacking(skill.requires, state)
    if missing:
        reason = f"[{', '.join(mode.recovery)}] ends without [{_text(missing)}]; known by then: [{_known(state)}]"
        yield Refusal(skill.name, rule, reason)


def _task(domain: Domain, task: AgentTask) -> Iterator[Refusal]:
    missing_guards = [Literal(name) for name in domain.spec.guards if Literal(name) not in task.begins]
    if missing_guards:
        yield Refusal(task.name, "its start holds the guards", f"[{_text(missing_guards)}] is not in its start")
    for name, method in task.methods.items():
        steps = domain.flattened(task, method)
        number, step, missing, state = broken_at(domain, method_start(domain, task, name), steps)
        if number:
            reason = f"step {number} ({step}) needs [{_text(missing)}]; known by then: [{_known(state)}]"
            yield Refusal(task.name, f"method {name} goes through", reason)
            continue
        missing = lacking(task.wants, state)
        if missing:
            reason = f"ends without [{_text(missing)}]; known by then: [{_known(state)}]"
            yield Refusal(task.name, f"method {name} reaches the goal", reason)
        mean_s = sum(domain.skills[step].mean_s for step in steps)
        if mean_s > task.deadline_s:
            reason = f"its steps take {mean_s:g} s by their means, the deadline is {task.deadline_s:g} s"
            yield Refusal(task.name, f"method {name} fits into the deadline", reason)


def _text(literals: Condition | list[Literal]) -> str:
    return ", ".join(map(str, literals))


def _known(state: State) -> str:
    return _text([Literal(name, wanted) for name, wanted in sorted(state.items())])
