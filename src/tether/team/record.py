"""A step on the task's record: who was given it, who took it, and how it ended, each one change of the working memory.

A step is taken once: whoever writes `CALL/taken` first has it, be it an agent's process or the coordinator that takes
it back. So a process that was started anew takes what nobody had taken, and never what the one before it had begun.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tether.agent.calls import Fact, Outcome, Status
from tether.memory.working import Action, Change, WorkingMemory, fact_fields

COORDINATOR = "coordinator"
TASK_KEY = "tether:team:task"
BEAT_KEY = "tether:team:beat:"
_GIVEN, _RECEIVED, _TAKER = "given_ns", "received_ns", "taker"
_STATUS, _FAILURE = "status", "failure"


@dataclass(frozen=True)
class TakenBy:
    """agent: its name; taker: its process. received_ns: steady time at which it had read the step."""

    agent: str
    taker: str
    received_ns: int


def give(memory: WorkingMemory, action: Action, stamp_ns: int, facts: Sequence[Fact]) -> int:
    """Hand a step over. Returns the steady time from right before."""
    now_ns = time.monotonic_ns()
    told = (*facts, Fact(_GIVEN, str(now_ns), stamp_ns, COORDINATOR))
    memory.write(Change(f"{action.call_id}/given", stamp_ns, COORDINATOR, told, action))
    return now_ns


def take(memory: WorkingMemory, call_id: str, agent: str, taker: str, stamp_ns: int, received_ns: int) -> bool:
    """Whether this process has the step now; False where another had taken it."""
    facts = (Fact(_TAKER, taker, stamp_ns, agent), Fact(_RECEIVED, str(received_ns), stamp_ns, agent))
    sequence = memory.write(Change(f"{call_id}/taken", stamp_ns, agent, facts))
    (change, *_) = memory.changes(sequence - 1)
    return _text(change, _TAKER) == taker


def taken(changes: Sequence[Change], call_id: str) -> TakenBy | None:
    """Who took a step; None while nobody has."""
    change = _find(changes, f"{call_id}/taken")
    return None if change is None else TakenBy(change.source, _text(change, _TAKER), int(_text(change, _RECEIVED)))


def end(memory: WorkingMemory, agent: str, stamp_ns: int, outcome: Outcome) -> None:
    """Put a step's outcome on record, with the facts that it was told from."""
    told = (
        Fact(_STATUS, outcome.status.value, stamp_ns, agent),
        Fact(_FAILURE, outcome.failure or "", stamp_ns, agent),
        Fact(_GIVEN, str(time.monotonic_ns()), stamp_ns, agent),
    )
    memory.write(Change(f"{outcome.call_id}/ended", stamp_ns, agent, (*outcome.facts, *told)))


def ended(changes: Sequence[Change], call_id: str) -> tuple[Outcome, int] | None:
    """A step's outcome, and the steady time from right before it was written; None while it has none."""
    change = _find(changes, f"{call_id}/ended")
    if change is None:
        return None
    facts = tuple(f for f in change.facts if f.name not in (_STATUS, _FAILURE, _GIVEN))
    return Outcome(call_id, Status(_text(change, _STATUS)), _text(change, _FAILURE) or None, facts), int(
        _text(change, _GIVEN)
    )


def lines(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """A task's record for JSON: every change of every agent, in order."""
    return [
        {
            "sequence": change.sequence,
            "change": change.change_id,
            "source": change.source,
            "stamp_ns": change.stamp_ns,
            "agent": "" if change.action is None else change.action.agent,
            "facts": [fact_fields(fact) for fact in change.facts],
        }
        for change in changes
    ]


def _find(changes: Sequence[Change], change_id: str) -> Change | None:
    return next((change for change in changes if change.change_id == change_id), None)


def _text(change: Change, name: str) -> str:
    return next(str(fact.value) for fact in change.facts if fact.name == name)
