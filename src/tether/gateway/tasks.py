"""A task's end-to-end deadline: taken from its declaration, and how it was kept, for those who ask the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tether.agent.calls import Fact
from tether.errors import Fault, InvalidInputError
from tether.gateway.records import CallRecord, call_fields
from tether.gateway.services import Catalogue
from tether.memory.working import fact_fields

MISSED = "deadline_missed"


def deadline_of(catalogue: Catalogue, task: str | None, timeout_s: float | None) -> float:
    """Seconds. Raises InvalidInputError where neither is given, the task is unknown, or its deadline is exceeded."""
    if task is None:
        if timeout_s is None:
            raise InvalidInputError("task", [Fault("timeout_s", "neither it nor `task`", "one of them")])
        return timeout_s
    declared_s = catalogue.deadline_s(task)
    if timeout_s is not None and timeout_s > declared_s:
        fault = Fault("timeout_s", f"{timeout_s:g}", f"at most {declared_s:g} s, the declared deadline of {task}")
        raise InvalidInputError("task", [fault])
    return declared_s if timeout_s is None else timeout_s


def task_fields(task_id: str, fields: Mapping[str, str], records: Sequence[CallRecord], now_ns: int) -> dict[str, Any]:
    """A task as JSON. fields: of the journal; now_ns: of the steady clock.

    in_time: None while it is open or has no deadline. slack_s: what was left when it was closed, below zero where it
    ran out. request: what a person is asked where the deadline was missed; None otherwise.
    """
    deadline, closed = fields.get("deadline_ns"), fields.get("closed")
    closed_ns = int(fields.get("closed_ns", now_ns))
    return {
        "task_id": task_id,
        "source": fields["source"],
        "opened_ns": int(fields["opened_wall_ns"]),
        "left_s": None if deadline is None else (int(deadline) - now_ns) * 1e-9,
        "took_s": (closed_ns - int(fields["opened_ns"])) * 1e-9,
        "closed": closed is not None,
        "in_time": None if closed is None or deadline is None else closed == "in_time",
        "slack_s": None if closed is None or deadline is None else (int(deadline) - closed_ns) * 1e-9,
        "request": _request(records) if closed == MISSED else None,
        "calls": [call_fields(record, now_ns) for record in records],
    }


def _request(records: Sequence[CallRecord]) -> dict[str, Any]:
    """State and options. A picture is the agent's to give: the gateway sees none."""
    unfinished = [record.call_id for record in records if not record.is_final]
    failed = [f"{r.call_id}: {r.outcome.failure}" for r in records if r.outcome is not None and r.outcome.failure]
    return {
        "reason": MISSED,
        "unfinished": unfinished,
        "failed": failed,
        "facts": [fact_fields(fact) for fact in _newest(records)],
        "options": ["open the task anew", "plan from these facts", "abandon the task"],
    }


def _newest(records: Sequence[CallRecord]) -> list[Fact]:
    """Each fact as the outcome that verified it last says."""
    newest: dict[str, Fact] = {}
    for fact in (fact for record in records if record.outcome is not None for fact in record.outcome.facts):
        if fact.name not in newest or fact.stamp_ns >= newest[fact.name].stamp_ns:
            newest[fact.name] = fact
    return [newest[name] for name in sorted(newest)]
