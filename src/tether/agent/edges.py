"""The circuit breakers of a reasoning graph: an edge, a skill from a state, that failed too often is not gone again.

An edge with so many failures since its last success, within a task or across the last runs, is open: plans avoid it.
After a time it is half open: one trial goes through, and closes it or opens it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from tether.agent.declaration import EdgeRules, TaskSkill
from tether.agent.domain import State
from tether.agent.facts import Literal

Key = tuple[str, tuple[str, ...]]
"""A skill, and what is known of the facts that its declaration speaks of, as `name` or `not name`, in order."""


class BreakerState(str, Enum):
    """Of an edge."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True)
class EdgeEvent:
    """What became of an edge. event: `opened`, `avoided` (a plan may not use it now), `trial` (half open, tried again)
    or `closed`. stamp_ns: of the facts' clock; failures: since its last success, within the runs that count."""

    stamp_ns: int
    skill: str
    state: tuple[str, ...]
    event: str
    failures: int

    def __str__(self) -> str:
        return f"{self.skill} from [{', '.join(self.state)}]: {self.event} ({self.failures} failures)"


@dataclass
class _Breaker:
    failed_in: list[int] = field(default_factory=list)
    """The runs in which it failed, one an entry."""
    opened_ns: int | None = None


class EdgeBreakers:
    """Of one robot, for as many runs as it is kept. Not safe for several threads. clock_ns: of the time after which an
    edge is half open."""

    def __init__(self, rules: EdgeRules, clock_ns: Callable[[], int]) -> None:
        self._rules, self._clock_ns = rules, clock_ns
        self._edges: dict[Key, _Breaker] = {}
        self._run = 0

    def begin_run(self) -> None:
        """A task begins."""
        self._run += 1

    def state(self, skill: TaskSkill, state: State) -> BreakerState:
        """Of the edge that goes from `state`."""
        breaker = self._edges.get(edge_key(skill, state))
        if breaker is None or breaker.opened_ns is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._left_ns(breaker.opened_ns) > 0 else BreakerState.HALF_OPEN

    def is_open(self, skill: TaskSkill, state: State) -> bool:
        """Whether plans must not use it now."""
        return self.state(skill, state) is BreakerState.OPEN

    def half_open_in_s(self, skill: TaskSkill, state: State) -> float:
        """Seconds until an open edge may be tried again; zero where it is not open."""
        breaker = self._edges.get(edge_key(skill, state))
        if breaker is None or breaker.opened_ns is None:
            return 0.0
        return max(0.0, self._left_ns(breaker.opened_ns) * 1e-9)

    def failures(self, skill: TaskSkill, state: State) -> int:
        """Since its last success, within the last runs."""
        breaker = self._edges.get(edge_key(skill, state))
        return 0 if breaker is None else len(self._counted(breaker))

    def worked(self, skill: TaskSkill, state: State) -> bool:
        """The edge led where it should; whether it was open or half open until now."""
        breaker = self._edges.pop(edge_key(skill, state), None)
        return breaker is not None and breaker.opened_ns is not None

    def failed(self, skill: TaskSkill, state: State) -> bool:
        """The edge was gone in vain; whether that opened it."""
        breaker = self._edges.setdefault(edge_key(skill, state), _Breaker())
        breaker.failed_in = [*self._counted(breaker), self._run]
        if breaker.opened_ns is None and len(breaker.failed_in) < self._rules.failures:
            return False
        breaker.opened_ns = self._clock_ns()
        return True

    def _counted(self, breaker: _Breaker) -> list[int]:
        return [run for run in breaker.failed_in if run > self._run - self._rules.runs]

    def _left_ns(self, opened_ns: int) -> int:
        return opened_ns + round(self._rules.cool_s * 1e9) - self._clock_ns()


def edge_key(skill: TaskSkill, state: State) -> Key:
    """What tells one edge from another: of the state only what the skill's declaration speaks of."""
    conditions = [skill.requires, skill.achieves, *(mode.condition for mode in skill.failures.values())]
    names = sorted({literal.name for condition in conditions for literal in condition})
    return skill.name, tuple(str(Literal(name, state[name])) for name in names if name in state)
