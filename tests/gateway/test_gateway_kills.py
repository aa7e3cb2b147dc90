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

from tether.bench.gateway import GatewayProcess, Load, tally
from tether.memory.redis_server import find_server
from tether.progress import Progress


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_of_worker_redis_and_gateway_lose_no_call_and_run_none_twice() -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")

    async def story(gateway: GatewayProcess, load: Load) -> None:
        offering = asyncio.create_task(load.run(Progress(len(load.ids), "calls")))
        for share, what in ((0.15, "worker"), (0.35, "redis"), (0.55, "gateway"), (0.75, "worker")):
            while len(load.states) < share * len(load.ids) and not offering.done():
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
        finally:
            gateway.stop()
        told = tally(load, gateway.marks)
        assert (told.lost, told.doubled, told.contradicting) == (0, 0, 0)
        assert gateway.redis_pids() == [] and gateway.worker_pids() == []
