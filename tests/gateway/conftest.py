"""A gateway in this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tether.memory.redis_server import RedisServer, connect

if TYPE_CHECKING:
    from tether.gateway.journal import GatewayJournal
    from tether.gateway.records import GatewayConfig


Story = Callable[["GatewayJournal"], Coroutine[Any, Any, None]]


@pytest.fixture
def with_journal(redis_server: RedisServer) -> Callable[[Story, GatewayConfig], None]:
    """Run a coroutine with a journal."""

    def run(story: Story, config: GatewayConfig) -> None:
        from tether.gateway.cli import async_client
        from tether.gateway.journal import GatewayJournal

        async def told() -> None:
            client = async_client(redis_server.url)
            try:
                await story(GatewayJournal(client, config))
            finally:
                await client.aclose()

        asyncio.run(told())

    return run


class Served:
    """A gateway in this process, with one worker in a thread."""

    def __init__(self, url: str, folder: Path, config: GatewayConfig, *, verifies: bool = True) -> None:
        from tether.bench.gateway import Marks
        from tether.gateway.services import Services
        from tether.gateway.tokens import make_token

        effects = folder / "effects"
        effects.mkdir()
        self.marks = Marks(effects)
        self.services = Services(self.marks, self.marks, self.marks if verifies else None)
        self._url, self._config = url, config
        self._tokens = folder / "tokens"
        self.token = make_token(self._tokens, "arm")
        self.other = make_token(self._tokens, "base")

    @asynccontextmanager
    async def running(self, *, worker: bool = True) -> AsyncIterator[Any]:
        """An HTTP client of it."""
        import httpx

        from tether.gateway.app import make_app
        from tether.gateway.cli import async_client
        from tether.gateway.tokens import Tokens
        from tether.gateway.worker import Worker

        redis = async_client(self._url)
        app = make_app(redis, self.services, Tokens(self._tokens), self._config)
        works = Worker(connect(self._url), f"w-{id(self)}", self.services, concurrency=8)
        thread = threading.Thread(target=works.run)
        headers = {"Authorization": f"Bearer {self.token}"}
        transport = httpx.ASGITransport(app)
        async with contextlib.aclosing(redis), app.router.lifespan_context(app):
            if worker:
                thread.start()
            try:
                async with httpx.AsyncClient(transport=transport, base_url="http://g", headers=headers) as client:
                    yield client
            finally:
                works.stop()
                if worker:
                    await asyncio.to_thread(thread.join)


@pytest.fixture
def served(redis_server: RedisServer, tmp_path: Path) -> Callable[..., Served]:
    for package in ("fastapi", "httpx"):
        pytest.importorskip(package, reason="needs the extra agent")
    from tether.gateway.records import GatewayConfig

    def make(config: GatewayConfig | None = None, *, verifies: bool = True) -> Served:
        return Served(redis_server.url, tmp_path, config or GatewayConfig(), verifies=verifies)

    return make
