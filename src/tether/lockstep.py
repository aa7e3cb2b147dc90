"""Barriers of lockstep: when has a stage everything that the world says it delivered for a tick?

The world publishes a TickPlan per tick: the samples (stream, stamp, sequence) that have become due. A stage arrives
at tick k once its plan has come and every due sample of the streams it listens to, in plans up to k, has come too.
Order of arrival plays no part, so a graph of processes computes what one loop computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from tether.contracts import SampleRef, Stream, TickPlan


class Barrier:
    """Tracks plans and arrivals of one stage.

    streams: whose due samples the stage must have. extra: further keys a tick needs, given by `require`.
    """

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._streams = frozenset(streams)
        self._plans: deque[TickPlan] = deque()
        self._arrived: set[Hashable] = set()
        self._last: tuple[int, int] = (-1, -1)

    def plan(self, plan: TickPlan) -> None:
        """Take a tick's plan. Plans of an older episode or tick than the last completed one are dropped."""
        key = (plan.episode, plan.tick)
        if key <= self._last or any(key == (p.episode, p.tick) for p in self._plans):
            return
        if self._plans and plan.episode > self._plans[-1].episode:
            self._plans.clear()
            self._arrived.clear()
        self._plans.append(plan)

    def arrive(self, key: Hashable) -> None:
        """Note that a sample (a SampleRef) or another stage's result (any hashable key) has come."""
        self._arrived.add(key)

    def missing(self, extra: Iterable[Hashable] = ()) -> list[Hashable]:
        """What the oldest open tick still waits for; empty when it is ready or when there is no open tick."""
        if not self._plans:
            return []
        return [key for key in self._needs(self._plans[0], extra) if key not in self._arrived]

    def head(self) -> TickPlan | None:
        """The oldest open tick, ready or not."""
        return self._plans[0] if self._plans else None

    def pop_ready(self, extra: Iterable[Hashable] = ()) -> TickPlan | None:
        """The oldest open tick if all it needs has come; it is then closed and its arrivals forgotten."""
        if not self._plans or self.missing(extra):
            return None
        plan = self._plans.popleft()
        for key in self._needs(plan, extra):
            self._arrived.discard(key)
        self._last = (plan.episode, plan.tick)
        return plan

    def _needs(self, plan: TickPlan, extra: Iterable[Hashable]) -> list[Hashable]:
        due: list[Hashable] = [ref for ref in plan.due if isinstance(ref, SampleRef) and ref.stream in self._streams]
        return due + list(extra)
