"""What a gateway's journal says of calls by itself: its trace is read and judged without the code that wrote it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tether.agent.calls import Status
from tether.bench.gateway_process import GatewayProcess
from tether.gateway.records import PREFIX
from tether.memory.redis_server import connect

_FINAL = frozenset(status.value for status in Status)
Event = tuple[str, str]
"""Of a call: what, and its detail."""


@dataclass(frozen=True)
class Audit:
    """ends: call → the states that its trace ends in: one, or two where a worker that was thought dead answered after
    the outcome was called unknown. lost: calls without such an end. unchecked: calls begun again without sensors having
    seen their effect absent. faults: both, in words. events: how often what happened."""

    ends: Mapping[str, tuple[str, ...]]
    lost: int
    unchecked: int
    faults: tuple[str, ...]
    events: Mapping[str, int]

    def summary(self) -> str:
        """One line."""
        shown = ("accepted", "begun", "requeued", "uncertain", "verified", "answered_late", *sorted(_FINAL))
        counts = ", ".join(f"{self.events[name]} {name}" for name in shown if self.events.get(name))
        return f"{counts}; {self.lost} lost, {self.unchecked} begun again unchecked"


def audit_journal(gateway: GatewayProcess, tasks: Mapping[str, str]) -> Audit:
    """Read the traces of all tasks. tasks: call → task. Needs the gateway's Redis to run."""
    traces: dict[str, list[Event]] = {call_id: [] for call_id in tasks}
    client = connect(f"unix://{gateway.redis_socket}", patience_s=60.0)
    try:
        for task in sorted(set(tasks.values())):
            for _, entry in client.xrange(f"{PREFIX}trace:{task}"):
                if entry["call"] in traces:
                    traces[entry["call"]].append((entry["event"], entry["detail"]))
    finally:
        client.close()
    return judge(traces)


def judge(traces: Mapping[str, Sequence[Event]]) -> Audit:
    """Judge each call's events, in order."""
    ends: dict[str, tuple[str, ...]] = {}
    lost = unchecked = 0
    faults: list[str] = []
    for call_id, events in traces.items():
        end = _ends(events)
        if end:
            ends[call_id] = end
        else:
            lost += 1
            faults.append(f"{call_id}: no end, or more than one: {', '.join(name for name, _ in events)}")
        if not _checked(events):
            unchecked += 1
            faults.append(f"{call_id}: begun again unchecked: {', '.join(f'{n} {d[:20]}' for n, d in events)}")
    kinds = Counter(name for events in traces.values() for name, _ in events)
    return Audit(ends, lost, unchecked, tuple(faults), kinds)


def _ends(events: Sequence[Event]) -> tuple[str, ...]:
    """What it ended in; nothing where it was not accepted just once or did not end just once."""
    names = [name for name, _ in events]
    finals = [name for name in names if name in _FINAL]
    if names.count("accepted") != 1 or len(finals) != 1:
        return ()
    late = [json.loads(detail)["status"] for name, detail in events if name == "answered_late"]
    return (finals[0], *late) if finals[0] == Status.OUTCOME_UNKNOWN.value else (finals[0],)


def _checked(events: Iterable[Event]) -> bool:
    """Whether before each beginning but the first sensors had looked since the last one, and seen no effect."""
    may_begin = True
    for name, detail in events:
        if name == "begun":
            if not may_begin:
                return False
            may_begin = False
        elif name == "verified":
            may_begin = detail == "absent"
    return True
