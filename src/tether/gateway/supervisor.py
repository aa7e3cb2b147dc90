"""Worker processes of this machine: started, started anew when they end, and known to be dead before that is said."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from tether.gateway.journal import Agent, GatewayJournal

_LOG = logging.getLogger(__name__)
_BACKOFF_S = (0.05, 0.2, 1.0, 5.0)
_LIVED_S = 10.0
_END_S = 30.0
_GONE_S = 5.0


@dataclass(frozen=True)
class WorkerConfig:
    """How workers are started."""

    redis_url: str
    services: str
    count: int = 2
    concurrency: int = 8
    prefix: str = ""

    def command(self, name: str) -> Sequence[str]:
        """What is run."""
        words = ["--redis", self.redis_url, "--services", self.services, "--name", name]
        words += ["--concurrency", str(self.concurrency), "--parent", str(os.getpid())]
        if self.prefix:
            words += ["--prefix", self.prefix]
        return [sys.executable, "-m", "tether.gateway.worker", *words]


class Supervisor:
    """Keeps `config.count` workers running until `close`."""

    def __init__(self, journal: GatewayJournal, config: WorkerConfig) -> None:
        self._journal, self._config = journal, config
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self.restarts = 0

    def start(self) -> None:
        """Begin, in the running loop."""
        self._tasks = [asyncio.create_task(self._keep(slot)) for slot in range(self._config.count)]

    @property
    def pids(self) -> list[int]:
        """Of the workers that run."""
        return [process.pid for process in self._processes.values() if process.returncode is None]

    async def close(self) -> None:
        """Have them end what they have begun, then end them."""
        self._closing = True
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()
        _, waiting = await asyncio.wait(self._tasks, timeout=_END_S) if self._tasks else ((), set())
        for process in self._processes.values():
            if process.returncode is None:
                _kill_group(process.pid)
        if waiting:
            await asyncio.wait(waiting, timeout=_GONE_S)

    async def _keep(self, slot: int) -> None:
        loop = asyncio.get_running_loop()
        short = 0
        while not self._closing:
            name = f"{socket.gethostname()[:40]}-{slot}-{secrets.token_hex(6)}"
            began_s = loop.time()
            # A session of its own: what a killed worker leaves behind is killed with its group.
            process = await asyncio.create_subprocess_exec(*self._config.command(name), start_new_session=True)
            self._processes[slot] = process
            code = await process.wait()
            await _end_group(process.pid)
            await self._say_lost(name, f"its worker ended with {code}")
            if self._closing:
                return
            self.restarts += 1
            short = 0 if loop.time() - began_s > _LIVED_S else min(short + 1, len(_BACKOFF_S) - 1)
            _LOG.warning("worker %s ended with %s; another is started", name, code)
            await asyncio.sleep(_BACKOFF_S[short])

    async def _say_lost(self, name: str, why: str) -> None:
        from redis.exceptions import RedisError

        while True:
            try:
                await self._journal.lose(name, fenced=True, why=why, forget=True)
                return
            except RedisError as error:
                _LOG.warning("journal: %s; trying again", error)
                await asyncio.sleep(0.2)


async def fence(agent: Agent) -> bool:
    """Make sure that an agent which no longer beats is dead: kill it, if it is a process of this machine. False where
    that cannot be known."""
    if agent.host != socket.gethostname() or agent.pid == os.getpid():
        return False
    try:
        process = psutil.Process(agent.pid)
        if abs(process.create_time() - agent.created_s) > 1.0:
            return True  # another process has its number by now
        process.kill()
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        return False
    return await _end_group(agent.pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _end_group(pid: int) -> bool:
    """Kill what is left of a process' group; True once nothing of it runs."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _GONE_S
    while loop.time() < until_s:
        _kill_group(pid)
        if not _alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


def _alive(group: int) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
