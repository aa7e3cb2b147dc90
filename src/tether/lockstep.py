"""Barriers of lockstep: when has a stage everything that the world says it delivered for a tick?

The world publishes a TickPlan per tick: the samples (stream, stamp, sequence) that have become due. A stage may run
tick k once its plan has come, every due sample of the streams it listens to, and the results of the stages before it.
Order of arrival plays no part, so a graph of processes computes what one loop computes. In real time there are no
plans; the same inbox then hands over whatever has arrived since it was last asked.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tether.contracts import TICKS_PER_DECISION, SampleRef, Stream, TickPlan

MAX_WAITING = 4096
"""Bound on items that wait for their plan; past it the oldest go first and are counted."""


@dataclass(frozen=True)
class Needs:
    """What a stage needs before it can run a tick.

    streams: their due samples. every_tick, at_decision, at_start: names of other stages' results that are needed at
    each tick (numbered by tick), at decision ticks (by decision id), at an episode's first tick (by 0). after_decision:
    results of a decision that are needed at the tick after its own.
    """

    streams: frozenset[Stream] = frozenset()
    every_tick: frozenset[str] = frozenset()
    at_decision: frozenset[str] = frozenset()
    at_start: frozenset[str] = frozenset()
    after_decision: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TickInputs:
    """What a stage gets for one tick: due samples per stream, oldest first, and other stages' results by name."""

    plan: TickPlan
    samples: Mapping[Stream, list[tuple[SampleRef, Any]]]
    results: Mapping[str, Any] = field(default_factory=dict)


_Key = tuple[str, int, int]


class Inbox:
    """Collects what arrives for one stage, in any order, and hands it over tick by tick."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._plans: deque[TickPlan] = deque()
        self._items: OrderedDict[_Key, Any] = OrderedDict()
        self._closed = (-1, -1)
        self.dropped = 0
        """Items that were pushed out while waiting for a plan that did not come."""

    def put_plan(self, plan: TickPlan) -> None:
        """Take a tick's plan; one that is already closed or already waiting is ignored."""
        key = (plan.episode, plan.tick)
        if key > self._closed and all(key != (p.episode, p.tick) for p in self._plans):
            self._plans.append(plan)

    def put_sample(self, stream: Stream, stamp_ns: int, item: Any) -> None:
        """Take a sample; within a stream the stamp is its identity."""
        self._put((stream.value, 0, stamp_ns), item)

    def put_result(self, name: str, episode: int, number: int, item: Any) -> None:
        """Take another stage's result for tick, decision or episode start `number` of `episode`."""
        self._put((name, episode + 1, number), item)

    def missing(self) -> list[str]:
        """What the oldest open tick still waits for, by name; empty if it is ready or no tick is open."""
        if not self._plans:
            return []
        plan = self._plans[0]
        return [
            f"{name} {number}" for name, epoch, number in self._keys(plan) if (name, epoch, number) not in self._items
        ]

    def where(self) -> str:
        """The oldest open tick, by name."""
        return f"tick {self._plans[0].tick} of episode {self._plans[0].episode}" if self._plans else "no tick"

    def take(self) -> TickInputs | None:
        """Close the oldest open tick and hand over its inputs, or None while something is missing."""
        if not self._plans:
            return None
        plan = self._plans[0]
        keys = self._keys(plan)
        if any(key not in self._items for key in keys):
            return None
        self._plans.popleft()
        self._closed = (plan.episode, plan.tick)
        samples: dict[Stream, list[tuple[SampleRef, Any]]] = {stream: [] for stream in self._needs.streams}
        for ref in plan.due:
            if ref.stream in self._needs.streams:
                samples[ref.stream].append((ref, self._items.pop((ref.stream.value, 0, ref.stamp_ns))))
        results = {name: self._items.pop((name, epoch, number)) for name, epoch, number in keys if epoch > 0}
        return TickInputs(plan, samples, results)

    def clear(self) -> None:
        """Forget everything that waits (a clock that jumped back, a reset)."""
        self._plans.clear()
        self._items.clear()
        self._closed = (-1, -1)

    def _put(self, key: _Key, item: Any) -> None:
        self._items[key] = item
        if len(self._items) > MAX_WAITING:
            self._items.popitem(last=False)
            self.dropped += 1

    def _keys(self, plan: TickPlan) -> list[_Key]:
        keys: list[_Key] = [(r.stream.value, 0, r.stamp_ns) for r in plan.due if r.stream in self._needs.streams]
        epoch = plan.episode + 1
        keys += [(name, epoch, plan.tick) for name in sorted(self._needs.every_tick)]
        if plan.decision_id is not None:
            keys += [(name, epoch, plan.decision_id) for name in sorted(self._needs.at_decision)]
        if plan.tick % TICKS_PER_DECISION == 1:
            before = plan.tick // TICKS_PER_DECISION
            keys += [(name, epoch, before) for name in sorted(self._needs.after_decision)]
        if plan.tick == 0:
            keys += [(name, epoch, 0) for name in sorted(self._needs.at_start)]
        return keys


def in_order(refs: Iterable[SampleRef]) -> tuple[SampleRef, ...]:
    """The canonical order in which samples enter a state: by stream name, then stamp, then sequence."""
    return tuple(sorted(refs, key=lambda r: (r.stream.value, r.stamp_ns, r.sequence)))
