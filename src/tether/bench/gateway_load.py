"""The client of `tether bench gateway`, who kills, and what became of the calls."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.bench.gateway_audit import Audit
from tether.bench.gateway_process import GatewayProcess
from tether.errors import TetherError
from tether.journal import RecordJournal
from tether.progress import Progress

_CALL_S = 60.0
_END_S = 900.0
"""Until a call without an answer counts as lost: a gateway that starts anew, twice, on a machine that is busy."""
_CALLS_A_TASK = 200


class Told:
    """What the gateway answered, on the disk, so that a load that was broken off goes on."""

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        """key: of the load; answers of another one are set aside."""
        self._journal = RecordJournal(path, {"bench": "gateway", **key})
        self.records = self._journal.read()
        self.keep({"sitting": True})
        self.sittings = 1 + sum("sitting" in record for record in self.records)

    def keep(self, record: Mapping[str, Any]) -> None:
        """One more."""
        self._journal.append(record)


class Load:
    """Calls, so many at a time. Each is offered again, under its id, until the gateway has answered for it."""

    def __init__(self, gateway: GatewayProcess, calls: int, concurrent: int, work_ms: float, seed: int) -> None:
        self._gateway, self._concurrent, self._work_ms = gateway, concurrent, work_ms
        self.key = {"concurrent": concurrent, "work_ms": work_ms, "seed": seed}
        self._told: Told | None = None
        self._chance = random.Random(seed)
        tasks = max(50, calls // _CALLS_A_TASK)
        self.tasks = {f"bench-{seed}-{n}": f"task-{n % tasks}" for n in range(calls)}
        """Call → its task."""
        self.latencies_ms: list[float] = []
        self.states: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.refusals: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.done = asyncio.Event()

    def go_on_from(self, told: Told) -> None:
        """Take what was answered before, and keep what will be."""
        self._told = told
        for record in told.records:
            if "killed" in record:
                self.killed[record["killed"]] += 1
            elif "call" in record:
                self._take(record)

    def kill(self, what: str) -> None:
        """Count a kill."""
        self.killed[what] += 1
        if self._told is not None:
            self._told.keep({"killed": what})

    def _take(self, record: Mapping[str, Any]) -> None:
        self.states[record["call"]], self.attempts[record["call"]] = record["state"], record["attempt"]
        if record["latency_ms"] is not None:
            self.latencies_ms.append(record["latency_ms"])

    async def run(self, progress: Progress) -> None:
        """Offer them all."""
        import httpx

        limits = httpx.Limits(max_connections=self._concurrent, max_keepalive_connections=self._concurrent)
        headers = {"Authorization": f"Bearer {self._gateway.token}"}
        waiting = iter([call_id for call_id in self.tasks if call_id not in self.states])
        async with httpx.AsyncClient(
            base_url=self._gateway.url, headers=headers, limits=limits, timeout=40.0, trust_env=False
        ) as client:

            async def one_after_another() -> None:
                for call_id in waiting:
                    await self._call(client, call_id)
                    progress.step()

            await asyncio.gather(*(one_after_another() for _ in range(self._concurrent)))
        self.done.set()

    async def _call(self, client: Any, call_id: str) -> None:
        import httpx

        # Of the call alone: one that is offered again by another process of ours must be the same call.
        work_ms = round(2.0 * self._work_ms * zlib.crc32(call_id.encode()) / 2**32, 3)
        body = {"call_id": call_id, "task_id": self.tasks[call_id], "skill": "mark", "timeout_s": _CALL_S}
        body["parameters"] = {"work_ms": work_ms}
        until_s = time.monotonic() + _END_S
        offered = 0
        while time.monotonic() < until_s:
            begun_s = time.monotonic()
            offered += 1
            try:
                reply = await client.post("/calls", json=body, params={"wait_s": 20.0})
            except httpx.HTTPError as error:
                self.refusals[type(error).__name__] += 1
                await asyncio.sleep(0.2)
                continue
            if reply.status_code in (429, 503):
                self.refusals[str(reply.status_code)] += 1
                await asyncio.sleep(float(reply.headers["Retry-After"]) * self._chance.uniform(0.5, 1.0))
                continue
            if reply.status_code != 202:
                raise TetherError(f"call {call_id}: {reply.status_code} {reply.text[:300]}")
            fields = reply.json()
            if fields["outcome"] is not None:
                # Others were refused or cut off, and say how long that took.
                latency_ms = (time.monotonic() - begun_s) * 1e3 - work_ms if offered == 1 else None
                record = {"call": call_id, "state": fields["state"], "attempt": fields["attempt"]}
                record["latency_ms"] = latency_ms
                if self._told is not None:
                    self._told.keep(record)
                self._take(record)
                return


async def _pause(load: Load, seconds: float) -> None:
    """Wait, or until all calls are answered."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(load.done.wait(), seconds)


async def _kill_in_turn(gateway: GatewayProcess, load: Load, every_s: float) -> None:
    chance = random.Random(1)
    for what in itertools.cycle(("worker", "redis", "worker", "gateway")):
        answered = len(load.states)
        await _pause(load, every_s * chance.uniform(0.7, 1.3))
        # Where starting Python takes longer than that, killing on would be all that happens.
        while len(load.states) == answered and not load.done.is_set():
            await _pause(load, 0.1)
        if load.done.is_set():
            return
        if what == "gateway":
            load.kill(what)
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
            continue
        pids = gateway.redis_pids() if what == "redis" else gateway.worker_pids()
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(pids), signal.SIGKILL)
                load.kill(what)


def run_load(gateway: GatewayProcess, load: Load, kill_every_s: float, progress: Progress) -> None:
    """All calls, with a kill in turn every so often (0: none). Raises what either of the two raises, at once."""

    async def both() -> None:
        parts = [load.run(progress)]
        if kill_every_s:
            parts.append(_kill_in_turn(gateway, load, kill_every_s))
        await asyncio.gather(*parts)

    asyncio.run(both())


@dataclass(frozen=True)
class Tally:
    """What became of the calls.

    lost: never answered for. run_twice: had their effect more than once. contradicting: done without an effect, or
    failed, timed out before they began, with one. journal_lost: without a final entry in the journal's trace, or with
    two. journal_unchecked: begun again there without sensors having seen their effect absent. journal_otherwise: ended
    there otherwise than the client was told.
    """

    lost: int
    run_twice: int
    contradicting: int
    journal_lost: int
    journal_unchecked: int
    journal_otherwise: int
    by_state: Mapping[str, int]
    retried: int

    @property
    def faults(self) -> int:
        """What must be zero."""
        own = self.lost + self.run_twice + self.contradicting
        return own + self.journal_lost + self.journal_unchecked + self.journal_otherwise


def tally(load: Load, count: Callable[[str], int], audit: Audit) -> Tally:
    """Compare what the gateway told with what happened (`count`: effects of a call) and with its journal."""
    counts = {call_id: count(call_id) for call_id in load.tasks}
    wrong = sum(
        (state == "done" and counts[call_id] == 0) or (state in ("failed", "timed_out") and counts[call_id] > 0)
        for call_id, state in load.states.items()
    )
    otherwise = sum(state not in audit.ends.get(call_id, ()) for call_id, state in load.states.items())
    return Tally(
        lost=sum(call_id not in load.states for call_id in load.tasks),
        run_twice=sum(n > 1 for n in counts.values()),
        contradicting=wrong,
        journal_lost=audit.lost,
        journal_unchecked=audit.unchecked,
        journal_otherwise=otherwise,
        by_state=Counter(load.states.values()),
        retried=sum(n > 1 for n in load.attempts.values()),
    )
