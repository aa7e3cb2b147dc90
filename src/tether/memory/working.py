"""Working memory: the current task's state and actions, a Redis hash a task, on the disk before `write` returns.

One change is one MULTI/EXEC: facts, action, sequence and the announcement together or not at all. A change has an id,
so that one whose answer was lost (the server was killed) is sent again and stands there once. Never for the 20 Hz loop:
a change waits for the disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from tether.agent.calls import Fact, Value
from tether.errors import DeadlineError, Fault, InvalidInputError
from tether.memory.redis_server import Client

_PAUSE_S = 0.02


@dataclass(frozen=True)
class Action:
    """What was done in a state: a call of a task skill.

    agent: to whom it is given, empty where there is one only; deadline_ns: of the robot's clock; step k of steps;
    attempt: from 1.
    """

    call_id: str
    skill: str
    parameters: Mapping[str, float]
    agent: str = ""
    deadline_ns: int = 0
    step: int = 1
    steps: int = 1
    attempt: int = 1


@dataclass(frozen=True)
class Change:
    """One change: what became true, and the action that is begun in this state or led to it.

    change_id: of the writer, once in a task. sequence: 1, 2, … in the task, given when it is written.
    """

    change_id: str
    stamp_ns: int
    source: str
    facts: tuple[Fact, ...] = ()
    action: Action | None = None
    sequence: int = field(default=0, compare=False)


class WorkingMemory:
    """One task's. Any number of processes read and write it; each writer is one thread at a time."""

    def __init__(self, client: Client, task_id: str, *, deadline_s: float = 10.0) -> None:
        """client: see `redis_server.connect`."""
        if not task_id or len(task_id) > 200 or not task_id.isprintable():
            raise InvalidInputError("task", [Fault("task_id", repr(task_id)[:80], "1 to 200 printable characters")])
        self._client = client
        self._deadline_s = deadline_s
        self.task_id = task_id
        self.key = f"tether:working:{task_id}"

    def write(self, change: Change) -> int:
        """Put a change on record; on return it is on the disk. Returns its sequence.

        The same change_id again returns the sequence it has. Raises DeadlineError where the server does not take it in
        time: it may then be on record or not, and writing it again with its id is safe.
        """
        from redis.exceptions import ConnectionError, TimeoutError, WatchError

        if not change.change_id:
            raise InvalidInputError("change", [Fault("change_id", "an empty text", "an id of the writer's own")])
        until_s = time.monotonic() + self._deadline_s
        while True:
            try:
                return self._try(change)
            except WatchError:
                pass
            except (ConnectionError, TimeoutError):
                time.sleep(_PAUSE_S)
            if time.monotonic() > until_s:
                raise DeadlineError(f"a change of task {self.task_id} on record", self._deadline_s, [change.change_id])

    def _try(self, change: Change) -> int:
        with self._client.pipeline(transaction=True) as pipe:
            pipe.watch(self.key)
            known, last = pipe.hmget(self.key, [f"id:{change.change_id}", "sequence"])
            if known is not None:
                return int(known)
            sequence = int(last or 0) + 1
            pipe.multi()
            fields: dict[str, str | int] = {f"fact:{fact.name}": _packed(fact) for fact in change.facts}
            fields[f"change:{sequence}"] = _packed_change(change, sequence)
            fields[f"id:{change.change_id}"] = fields["sequence"] = sequence
            pipe.hset(self.key, mapping=fields)
            pipe.publish(self.key, sequence)
            pipe.execute()
            return sequence

    def facts(self) -> dict[str, Fact]:
        """Name → newest fact."""
        every = self._client.hgetall(self.key)
        facts = (_fact(text) for name, text in every.items() if name.startswith("fact:"))
        return {fact.name: fact for fact in facts}

    def changes(self, after: int = 0) -> list[Change]:
        """Changes with a sequence above `after`, in order. None is missing: sequences have no gaps."""
        last = int(self._client.hget(self.key, "sequence") or 0)
        if last <= after:
            return []
        texts = self._client.hmget(self.key, [f"change:{n}" for n in range(after + 1, last + 1)])
        return [_change(text) for text in texts if text is not None]

    def follow(self, after: int = 0, *, silence_s: float = 1.0) -> Iterator[list[Change]]:
        """Changes as they come: at least every `silence_s` a list, which may be empty. For hand-over between agents.

        Announcements only wake it; what it gives is read from the record, so none that was lost is missed.
        """
        from redis.exceptions import RedisError

        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            pubsub.subscribe(self.key)
            pubsub.get_message(timeout=silence_s)  # subscribed: what is written from now on is announced
            while True:
                changes = self.changes(after)
                after = changes[-1].sequence if changes else after
                yield changes
                try:
                    pubsub.get_message(timeout=silence_s)
                except RedisError:
                    time.sleep(_PAUSE_S)
        finally:
            pubsub.close()

    def followers(self) -> int:
        """How many follow it now."""
        (_, count), *_ = self._client.pubsub_numsub(self.key)
        return int(count)

    def expire(self, keep_s: int) -> None:
        """The task is over: forget it after `keep_s`."""
        self._client.expire(self.key, keep_s)


def fact_fields(fact: Fact) -> dict[str, Any]:
    """A fact for JSON."""
    return {"name": fact.name, "value": fact.value, "stamp_ns": fact.stamp_ns, "source": fact.source}


def fact_from(fields: Mapping[str, Any]) -> Fact:
    """What `fact_fields` gave."""
    value: Value = fields["value"]
    return Fact(fields["name"], value, fields["stamp_ns"], fields["source"])


def _packed(fact: Fact) -> str:
    return json.dumps(fact_fields(fact), allow_nan=False)


def _fact(text: str) -> Fact:
    return fact_from(json.loads(text))


def _packed_change(change: Change, sequence: int) -> str:
    action = change.action
    fields = {
        "id": change.change_id,
        "sequence": sequence,
        "stamp_ns": change.stamp_ns,
        "source": change.source,
        "facts": [fact_fields(fact) for fact in change.facts],
        "action": None if action is None else list(astuple(replace(action, parameters=dict(action.parameters)))),
    }
    return json.dumps(fields, allow_nan=False)


def _change(text: str) -> Change:
    fields = json.loads(text)
    action = None if fields["action"] is None else Action(*fields["action"])
    made = tuple(fact_from(fact) for fact in fields["facts"])
    return Change(fields["id"], fields["stamp_ns"], fields["source"], made, action, fields["sequence"])
