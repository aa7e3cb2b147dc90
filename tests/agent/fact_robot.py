"""A robot of facts alone, for the state machine's tests: its world is the domain itself."""

from __future__ import annotations

from collections.abc import Mapping

from tether.agent.calls import Call, Fact
from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain
from tether.agent.facts import Literal, parse_condition

LOST = "worker lost"
"""In a script of happenings: the worker dies, and the effect has come about, or not."""


class FactRobot:
    """A robot whose world is the domain's own: each skill has its effect after three decisions, but for what
    `happens` says: skill → what its attempts lead to, in turn (literals, LOST, LOST with its effect, None: nothing)."""

    def __init__(self, domain: Domain, happens: Mapping[str, list[object]] | None = None, source: str = "test") -> None:
        self._domain, self._source = domain, source
        self._happens = {name: list(what) for name, what in (happens or {}).items()}
        self._known = domain.closure(domain.tasks["fetch"].begins)
        self._now_ns = 1_000_000_000
        self._skill: TaskSkill | None = None
        self._decisions = 0
        self.fault: str | None = None
        self.started: list[str] = []
        self.killed: list[str] = []
        self.evidence: dict[str, float] = {}

    @property
    def facts(self) -> dict[str, Fact]:
        return {name: Fact(name, value, self._now_ns, self._source) for name, value in self._known.items()}

    def know(self, *texts: str) -> None:
        self._known = self._domain.after(self._known, parse_condition(texts, "test"))

    def now_ns(self) -> int:
        return self._now_ns

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        self._skill, self._decisions, self.fault = skill, 0, None
        self.started.append(skill.name)
        queue = self._happens.get(skill.name, [])
        self._next = queue.pop(0) if queue else skill.achieves

    def advance(self) -> None:
        self._now_ns += 50_000_000
        self._decisions += 1
        if self._skill is None or self._decisions != 3 or self._next is None:
            return
        if isinstance(self._next, str):
            self.fault = self._next
            if self._next != LOST:
                self._known = self._domain.after(self._known, self._skill.achieves)
        else:
            literals = [item if isinstance(item, Literal) else parse_condition([item], "t")[0] for item in self._next]
            self._known = self._domain.after(self._known, literals)

    def stop(self, *, kill: bool) -> None:
        if kill and self._skill is not None:
            self.killed.append(self._skill.name)
        self._skill, self.fault = None, None

    def judged(self) -> dict[str, bool]:
        return {}

    def picture(self) -> None:
        return None
