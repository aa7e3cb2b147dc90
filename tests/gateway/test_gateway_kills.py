from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="needs the extra agent")
pytest.importorskip("fastapi", reason="needs the extra agent")
pytest.importorskip("uvicorn", reason="needs the extra agent")
pytest.importorskip("httpx", reason="needs the extra agent")

from tether.bench.gateway import Marks
from tether.bench.gateway_audit import audit_journal, judge
from tether.bench.gateway_load import Load, Told, tally
from tether.bench.gateway_process import GatewayProcess
from tether.memory.redis_server import find_server
from tether.progress import Progress


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_of_worker_redis_and_gateway_lose_no_call_and_run_none_twice() -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")

    async def story(gateway: GatewayProcess, load: Load) -> None:
        offering = asyncio.create_task(load.run(Progress(len(load.tasks), "calls")))
        for share, what in ((0.15, "worker"), (0.35, "redis"), (0.55, "gateway"), (0.75, "worker")):
            while len(load.states) < share * len(load.tasks) and not offering.done():
                await asyncio.sleep(0.02)
            if what == "gateway":
                await asyncio.to_thread(gateway.kill)
                await asyncio.to_thread(gateway.start)
            else:
                for pid in (gateway.redis_pids() if what == "redis" else gateway.worker_pids())[:1]:
                    os.kill(pid, signal.SIGKILL)
        await offering

    with tempfile.TemporaryDirectory(prefix="tether-gw-") as folder:
        gateway = GatewayProcess(Path(folder), workers=1, concurrency=16)
        try:
            gateway.start()
            load = Load(gateway, calls=120, concurrent=16, work_ms=40.0, seed=0)
            asyncio.run(story(gateway, load))
            audit = audit_journal(gateway, load.tasks)
        finally:
            gateway.stop()
        seen = tally(load, Marks(gateway.effects).count, audit)
        assert seen.faults == 0, (seen, audit.faults)
        assert audit.events["accepted"] == 120
        assert gateway.redis_pids() == [] and gateway.worker_pids() == []


def test_a_load_that_was_broken_off_goes_on_from_what_was_answered(tmp_path: Path) -> None:
    path, key = tmp_path / "told.jsonl", {"calls": 3, "seed": 0}
    first = Told(path, key)
    first.keep({"call": "bench-0-1", "state": "done", "attempt": 2, "latency_ms": 7.0})
    first.keep({"killed": "redis"})
    load = Load(GatewayProcess(tmp_path), calls=3, concurrent=1, work_ms=0.0, seed=0)
    again = Told(path, key)
    load.go_on_from(again)
    assert (load.states, load.attempts, load.latencies_ms) == ({"bench-0-1": "done"}, {"bench-0-1": 2}, [7.0])
    assert load.killed == {"redis": 1} and again.sittings == 2
    assert Told(path, {"calls": 4, "seed": 0}).records == []


_RUN = [("accepted", "{}"), ("begun", "attempt 1")]
_AGAIN = [*_RUN, ("uncertain", "killed"), ("verified", "absent"), ("requeued", ""), ("begun", "attempt 2")]


@pytest.mark.parametrize(
    ("events", "lost", "unchecked"),
    [
        ([*_RUN, ("done", "")], 0, 0),
        ([*_AGAIN, ("done", "")], 0, 0),
        ([*_RUN, ("uncertain", "killed"), ("outcome_unknown", "")], 0, 0),
        (_RUN, 1, 0),
        ([*_RUN, ("done", ""), ("done", "")], 1, 0),
        ([*_RUN, ("requeued", "killed"), ("begun", "attempt 2"), ("done", "")], 0, 1),
        ([*_RUN, ("verified", "unknown"), ("begun", "attempt 2"), ("done", "")], 0, 1),
        ([*_AGAIN, ("begun", "attempt 3"), ("done", "")], 0, 1),
        ([], 1, 0),
    ],
)
def test_the_audit_finds_calls_that_were_lost_or_begun_again_without_a_look(
    events: list[tuple[str, str]], lost: int, unchecked: int
) -> None:
    audit = judge({"c": events})
    assert (audit.lost, audit.unchecked) == (lost, unchecked)
