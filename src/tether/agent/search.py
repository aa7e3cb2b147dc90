"""Search through what may come to be known: every state that skills and their failures lead to, and quickest plans.

States are three-valued: a fact that nobody has established is not known, and no precondition rests on it.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain, State, lacking
from tether.agent.facts import Condition

STATES_MAX = 200_000
"""Bound of the exhaustive search; past it a proof is refused rather than left unfinished."""

_Key = frozenset[tuple[str, bool]]


def reachable_states(domain: Domain, starts: Iterable[State]) -> list[State]:
    """Every state from `starts` on, by effects of skills and by the facts of their failures.

    Raises ValueError beyond STATES_MAX, where a proof by exhaustion would not end in time.
    """
    seen: dict[_Key, State] = {_key(state): state for state in starts}
    todo = deque(seen.values())
    while todo:
        state = todo.popleft()
        for skill in domain.skills.values():
            if lacking(skill.requires, state):
                continue
            outcomes = [skill.achieves, *(mode.condition for mode in skill.failures.values() if mode.when)]
            for literals in outcomes:
                following = domain.after(state, literals)
                if seen.setdefault(_key(following), following) is following:
                    todo.append(following)
        if len(seen) > STATES_MAX:
            raise ValueError(f"more than {STATES_MAX} states; declare fewer facts or more exclusive ones")
    return list(seen.values())


def quickest_plan(
    domain: Domain,
    state: State,
    goal: Condition,
    usable: Mapping[str, TaskSkill] | None = None,
    avoid: Callable[[TaskSkill, State], bool] = lambda skill, state: False,
) -> tuple[str, ...] | None:
    """The skills that lead from `state` to `goal` in the least time by their measured means; None where none do.

    usable: the skills to choose from, all where None. Each is taken to have its effect: failures are for recoveries.
    avoid: whether a skill must not be used from a state.
    """
    skills = domain.skills if usable is None else usable
    start = dict(state)
    came: dict[_Key, tuple[_Key, str] | None] = {}
    order = itertools.count()  # ties: whatever was found first
    todo: list[tuple[float, int, State, tuple[_Key, str] | None]] = [(0.0, next(order), start, None)]
    while todo and len(came) < STATES_MAX:
        spent_s, _, state, link = heapq.heappop(todo)
        key = _key(state)
        if key in came:
            continue
        came[key] = link
        if not lacking(goal, state):
            return _path(came, key)
        for name, skill in skills.items():
            if not lacking(skill.requires, state) and not avoid(skill, state):
                following = domain.after(state, skill.achieves)
                heapq.heappush(todo, (spent_s + skill.mean_s, next(order), following, (key, name)))
    return None


def broken_at(domain: Domain, state: State, steps: Iterable[str]) -> tuple[int, str, Condition, State]:
    """Follow `steps` from `state`: the number (from 1) and name of the first whose precondition is not known to hold,
    what it lacks, and the state there; (0, "", (), last state) where all go through."""
    for number, name in enumerate(steps, 1):
        skill = domain.skills[name]
        missing = lacking(skill.requires, state)
        if missing:
            return number, name, missing, state
        state = domain.after(state, skill.achieves)
    return 0, "", (), state


def _key(state: State) -> _Key:
    return frozenset(state.items())


def _path(came: Mapping[_Key, tuple[_Key, str] | None], key: _Key) -> tuple[str, ...]:
    steps: list[str] = []
    while (link := came[key]) is not None:
        key, name = link
        steps.append(name)
    return tuple(reversed(steps))
