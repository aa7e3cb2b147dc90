"""The durable journal of calls from both sides: `GatewayJournal` (asynchronous) takes calls, `WorkerJournal` runs them.

Both go through the scripts of `scripts.py`: one step each, on the disk before it answers, safe to send again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.agent.calls import Fact, Outcome, Status
from tether.gateway import scripts
from tether.gateway.records import (
    PREFIX,
    Answer,
    CallRecord,
    Effect,
    GatewayConfig,
    Polled,
    digest,
    packed_outcome,
    packed_spec,
    parsed_call,
    parsed_job,
)
from tether.memory.redis_server import Client

RUN_KEPT_S = 604_800


def _stamps(prefix: str) -> list[str]:
    return [prefix, str(time.monotonic_ns()), str(time.time_ns())]


@dataclass(frozen=True)
class Agent:
    """A worker as it last beat. beat_steady_ns: of its clock, which is this machine's. created_s: of its process.
    verifies: it can verify effects."""

    name: str
    pid: int
    host: str
    created_s: float
    beat_steady_ns: int
    turns: int
    calls: int
    verifies: bool


class WorkerJournal:
    """What a worker asks and says. Methods raise redis.exceptions.RedisError once the client's patience is over."""

    def __init__(self, client: Client, name: str, prefix: str = PREFIX) -> None:
        """name: of this worker's process, never used again by another."""
        self._client, self._prefix, self.name = client, prefix, name
        self._scripts = {
            text: client.register_script(scripts.COMMON + text)
            for text in (scripts.POLL, scripts.BEGIN, scripts.FINISH, scripts.VERIFIED, scripts.LOSE)
        }

    def _run(self, script: str, *arguments: str) -> Any:
        return self._scripts[script](args=[*_stamps(self._prefix), self.name, *arguments])

    def poll(self, room: int, known: Iterable[str], beat: Mapping[str, Any] | None, *, verifies: bool) -> Polled:
        """Beat, and learn what to do. room: calls this worker may have in all; known: those it has."""
        text = "" if beat is None else json.dumps(beat)
        jobs, cancels, mine = self._run(scripts.POLL, str(room), text, "1" if verifies else "0", *known)
        return Polled(tuple(parsed_job(job) for job in jobs), frozenset(cancels), frozenset(mine))

    def begin(self, call_id: str, attempt: int) -> bool:
        """Say that the effect may happen from now on. False: do not, the call is no longer this worker's."""
        return bool(self._run(scripts.BEGIN, call_id, str(attempt)) == "go")

    def finish(self, call_id: str, attempt: int, outcome: Outcome, *, verifies: bool) -> None:
        """The outcome. verifies: somebody can verify effects."""
        text = packed_outcome(outcome)
        self._run(scripts.FINISH, call_id, str(attempt), outcome.status.value, text, "1" if verifies else "0")

    def verified(self, call_id: str, attempt: int, effect: Effect, facts: tuple[Fact, ...], attempts_max: int) -> None:
        """What sensors say of the effect."""
        text = packed_outcome(Outcome(call_id, Status.DONE, None, facts))
        self._run(scripts.VERIFIED, call_id, str(attempt), effect.value, str(attempts_max), text)

    def note(self, task_id: str, call_id: str, event: str, detail: str) -> None:
        """Put something of interest into the task's trace."""
        steady_ns, stamp_ns = time.monotonic_ns(), time.time_ns()
        fields = {"event": event, "call": call_id, "who": self.name, "detail": detail}
        entry = {**fields, "stamp_ns": stamp_ns, "steady_ns": steady_ns}
        self._client.xadd(f"{self._prefix}trace:{task_id}", entry, maxlen=20_000, approximate=True)

    def leave(self) -> None:
        """This worker ends and has nothing begun: what it has taken is queued again."""
        self._run(scripts.LOSE, "1", "the worker was told to end", "1")


class GatewayJournal:
    """What the gateway asks and says. client: a `redis.asyncio.Redis`. Raises redis.exceptions.RedisError."""

    def __init__(self, client: Any, config: GatewayConfig, prefix: str = PREFIX) -> None:
        self._client, self._prefix, self.config = client, prefix, config
        names = (scripts.ACCEPT, scripts.CANCEL, scripts.LOSE, scripts.SWEEP, scripts.TASK, scripts.CLOSE, scripts.BOOT)
        self._scripts = {text: client.register_script(scripts.COMMON + text) for text in names}

    async def _run(self, script: str, *arguments: str) -> Any:
        return await self._scripts[script](args=[*_stamps(self._prefix), *arguments])

    async def accept(
        self, call_id: str, task_id: str, skill: str, parameters: Mapping[str, float], source: str, timeout_s: float
    ) -> tuple[Answer, float]:
        """Take a call on; on ACCEPTED it is on the disk. Beside: open calls (FULL, BUSY), seconds to wait (OPEN)."""
        config, spec = self.config, packed_spec(parameters)
        answer, number = await self._run(
            scripts.ACCEPT,
            call_id,
            task_id,
            skill,
            spec,
            source,
            str(time.monotonic_ns() + round(timeout_s * 1e9)),
            digest(task_id, skill, spec, source),
            str(config.queue_max),
            str(config.client_max),
            str(config.edge_failures_max),
            str(round(config.edge_cool_s * 1e9)),
        )
        value = float(number)
        return Answer(answer), value * 1e-9 if answer == "open" else value

    async def cancel(self, call_id: str, who: str) -> str:
        """Cancel: its state if it is final, `cancelled`, `cancelling`, or `unknown` where there is none."""
        return str(await self._run(scripts.CANCEL, call_id, who))

    async def lose(self, worker: str, *, fenced: bool, why: str, forget: bool) -> None:
        """A worker is gone. fenced: it is known to be dead, so nothing it had begun can still go on. forget: for good,
        and not listed any longer."""
        await self._run(scripts.LOSE, worker, "1" if fenced else "0", why, "1" if forget else "0")

    async def sweep(self, *, can_verify: bool) -> int:
        """End what is past its deadline. can_verify: some agent can verify effects. Returns how many calls ended."""
        grace_ns = str(round(self.config.grace_s * 1e9))
        return int(await self._run(scripts.SWEEP, grace_ns, "1" if can_verify else "0"))

    async def boot(self) -> int:
        """At start: end what a machine that was started anew cannot go on with. Returns how many calls ended."""
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return int(await self._run(scripts.BOOT, boot_id))

    async def open_task(self, task_id: str, source: str, timeout_s: float) -> str:
        """`opened`, `known`, or `begun` where calls came before and no deadline was given."""
        deadline_ns = time.monotonic_ns() + round(timeout_s * 1e9)
        return str(await self._run(scripts.TASK, task_id, str(deadline_ns), source))

    async def close_task(self, task_id: str, who: str) -> str:
        """`in_time`, `deadline_missed`, `open_calls`, or `unknown`."""
        return str(await self._run(scripts.CLOSE, task_id, who))

    async def keep_declaration(self, name: str, text: str) -> None:
        """Keep a skill's declaration across restarts."""
        await self._client.hset(f"{self._prefix}declarations", name, text)

    async def keep_run(self, task_id: str, **fields: str) -> None:
        """Put a run, or more of it, on record; it is open until `end_run`."""
        key = f"{self._prefix}run:{task_id}"
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields).expire(key, RUN_KEPT_S)
            if "request" in fields:
                pipe.sadd(f"{self._prefix}runs", task_id)
            await pipe.execute()

    async def end_run(self, task_id: str, ended: str) -> None:
        """A run is over; ended: its outcome and graph."""
        key = f"{self._prefix}run:{task_id}"
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(key, "ended", ended).expire(key, RUN_KEPT_S).srem(f"{self._prefix}runs", task_id)
            await pipe.execute()

    # Reading

    async def run(self, task_id: str) -> dict[str, str] | None:
        """A run's fields, or None."""
        return dict(await self._client.hgetall(f"{self._prefix}run:{task_id}")) or None

    async def open_runs(self) -> list[str]:
        """Task ids of runs that have not ended."""
        return sorted(await self._client.smembers(f"{self._prefix}runs"))

    async def declarations(self) -> dict[str, str]:
        """Name → declaration of what was registered."""
        return dict(await self._client.hgetall(f"{self._prefix}declarations"))

    async def call(self, call_id: str) -> CallRecord | None:
        """A call, or None."""
        fields = await self._client.hgetall(f"{self._prefix}call:{call_id}")
        return parsed_call(call_id, fields) if fields else None

    async def task(self, task_id: str) -> tuple[dict[str, str], list[CallRecord]] | None:
        """A task's fields and its calls, or None."""
        fields = await self._client.hgetall(f"{self._prefix}task:{task_id}")
        if not fields:
            return None
        ids = sorted(await self._client.smembers(f"{self._prefix}calls:{task_id}"))
        records = [record for call_id in ids if (record := await self.call(call_id)) is not None]
        return fields, records

    async def trace(self, task_id: str) -> list[dict[str, str]]:
        """Everything on record of a task, in order: one query."""
        return [entry for _, entry in await self._client.xrange(f"{self._prefix}trace:{task_id}")]

    async def agents(self) -> list[Agent]:
        """Workers that have beaten and are not given up."""
        every = await self._client.hgetall(f"{self._prefix}agents")
        return [Agent(name=name, **json.loads(text)) for name, text in sorted(every.items())]

    async def counts(self) -> dict[str, int]:
        """Calls by outcome, tasks in time and missed, since the journal began; `open`: calls that are not final."""
        counts = {name: int(n) for name, n in (await self._client.hgetall(f"{self._prefix}count")).items()}
        return {**counts, "open": int(await self._client.zcard(f"{self._prefix}open"))}

    async def edges(self) -> dict[str, dict[str, str]]:
        """Circuit breakers with failures: `client>skill` → fields."""
        prefix = f"{self._prefix}edge:"
        names = [key async for key in self._client.scan_iter(match=f"{prefix}*", count=500)]
        return {name.removeprefix(prefix): await self._client.hgetall(name) for name in sorted(names)}

    @property
    def done_channel(self) -> str:
        """Where ids of calls are announced once they are final."""
        return f"{self._prefix}done"
