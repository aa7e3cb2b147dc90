"""What passes between gateway, journal and workers, and how it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from tether.agent.calls import Call, Fact, Outcome, Status, Value
from tether.config import bounded
from tether.memory.working import fact_fields, fact_from

PREFIX = "tether:gateway:"
FINAL = frozenset(status.value for status in Status)
"""States that a call stays in."""


class Effect(str, Enum):
    """What sensors say of the effect of a call whose worker is gone."""

    HAPPENED = "happened"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class EffectVerifier(Protocol):
    """Looks whether a call's effect is there. Changes nothing in the world; may be asked more than once."""

    def verify(self, call: Call) -> tuple[Effect, tuple[Fact, ...]] | Outcome:
        """The effect now, and the facts it was told from; or how the call ended, where whoever ran it still knows.

        `call` carries the id of the attempt that was lost.
        """


class Answer(str, Enum):
    """What the journal says to a call that is offered."""

    ACCEPTED = "accepted"
    KNOWN = "known"
    """The same call was accepted before: nothing is run twice, whoever asks gets its outcome."""
    CONFLICT = "conflict"
    """Another call has this id."""
    FULL = "full"
    BUSY = "busy"
    """This client has as many calls open as one may."""
    LATE = "late"
    CLOSED = "closed"
    """The task is over."""
    OPEN = "open"
    """The circuit breaker of this edge (client → skill) is open."""


@dataclass(frozen=True)
class GatewayConfig:
    """How much is taken on, and when somebody is given up."""

    queue_max: int = bounded(1, 100_000, default=1000, doc="calls not final, of all clients")
    client_max: int = bounded(1, 100_000, default=500, doc="calls not final, of one client")
    requests_max: int = bounded(1, 10_000, default=256, doc="HTTP requests at work at a time")
    edge_failures_max: int = bounded(1, 1000, default=5, doc="in a row, until an edge opens")
    edge_cool_s: float = bounded(0.1, 3600.0, default=10.0, unit="s")
    attempts_max: int = bounded(1, 10, default=3, doc="of a call whose worker dies; each after the effect is verified")
    grace_s: float = bounded(0.1, 60.0, default=2.0, unit="s", doc="after a deadline, until an answer is given up")
    offline_s: float = bounded(0.5, 300.0, default=15.0, unit="s", doc="without a beat")
    forget_s: float = bounded(1.0, 3600.0, default=30.0, unit="s", doc="without a beat: TTL of an agent")
    sweep_s: float = bounded(0.05, 60.0, default=0.5, unit="s")


@dataclass(frozen=True)
class Job:
    """Work of a worker. attempt: from 1; the executor sees `call`, whose id names the attempt from the second on."""

    verify: bool
    call_id: str
    attempt: int
    call: Call


@dataclass(frozen=True)
class Polled:
    """Answer to a worker's poll. cancels: calls to be cancelled; mine: calls that are this worker's."""

    jobs: tuple[Job, ...]
    cancels: frozenset[str]
    mine: frozenset[str]


@dataclass(frozen=True)
class CallRecord:
    """A call as the journal has it. state: queued, taken, running, uncertain, verifying, or a Status' value.

    Times in nanoseconds: steady where named so, else of the wall clock.
    """

    call_id: str
    task_id: str
    skill: str
    parameters: Mapping[str, float]
    source: str
    state: str
    attempt: int
    deadline_steady_ns: int
    accepted_ns: int
    ended_ns: int | None
    worker: str | None
    outcome: Outcome | None

    @property
    def is_final(self) -> bool:
        """Whether it will stay as it is."""
        return self.state in FINAL


def attempt_id(call_id: str, attempt: int) -> str:
    """The id under which an executor sees an attempt: the same id is never run twice, so each has its own."""
    return call_id if attempt == 1 else f"{call_id}#{attempt}"


def packed_spec(parameters: Mapping[str, float]) -> str:
    """Parameters for the journal."""
    return json.dumps(dict(sorted(parameters.items())), allow_nan=False)


def digest(task_id: str, skill: str, spec: str, source: str) -> str:
    """What makes a call the same call."""
    return hashlib.sha256(json.dumps([task_id, skill, spec, source]).encode()).hexdigest()[:32]


def packed_outcome(outcome: Outcome) -> str:
    """An outcome for the journal and the wire."""
    return json.dumps(outcome_fields(outcome), allow_nan=False)


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON."""
    facts = [fact_fields(fact) for fact in outcome.facts]
    return {"call_id": outcome.call_id, "status": outcome.status.value, "failure": outcome.failure, "facts": facts}


def parsed_outcome(text: str) -> Outcome:
    """What `packed_outcome` or a script of the journal wrote."""
    fields = json.loads(text)
    facts = tuple(fact_from(fact) for fact in fields["facts"] or ())
    return Outcome(fields["call_id"], Status(fields["status"]), fields.get("failure"), facts)


def parsed_job(reply: list[str]) -> Job:
    """A job as the script POLL gives it."""
    what, call_id, attempt, task_id, skill, spec, deadline_ns = reply
    call = Call(attempt_id(call_id, int(attempt)), task_id, skill, json.loads(spec), int(deadline_ns))
    return Job(what == "verify", call_id, int(attempt), call)


def parsed_call(call_id: str, fields: Mapping[str, str]) -> CallRecord:
    """A call's hash."""
    return CallRecord(
        call_id,
        fields["task"],
        fields["skill"],
        json.loads(fields["spec"]),
        fields["source"],
        fields["state"],
        int(fields["attempt"]),
        int(fields["deadline_ns"]),
        int(fields["accepted_wall_ns"]),
        int(fields["ended_wall_ns"]) if "ended_wall_ns" in fields else None,
        fields.get("worker"),
        parsed_outcome(fields["outcome"]) if "outcome" in fields else None,
    )


def call_fields(record: CallRecord, now_steady_ns: int) -> dict[str, Any]:
    """A call for whoever asks the gateway."""
    return {
        "call_id": record.call_id,
        "task_id": record.task_id,
        "skill": record.skill,
        "parameters": dict(record.parameters),
        "source": record.source,
        "state": record.state,
        "attempt": record.attempt,
        "left_s": max(0.0, (record.deadline_steady_ns - now_steady_ns) * 1e-9),
        "accepted_ns": record.accepted_ns,
        "ended_ns": record.ended_ns,
        "worker": record.worker,
        "outcome": None if record.outcome is None else outcome_fields(record.outcome),
    }


FactValues = Mapping[str, Value]
"""Name → value of facts, without stamps."""
