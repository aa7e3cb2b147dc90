"""`tether gateway` as a process that can be killed and started again, for its benchmark and its tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tether.errors import DeadlineError, TetherError
from tether.gateway.tokens import make_token

EFFECTS_VARIABLE = "TETHER_BENCH_EFFECTS"
MODULE = "tether.bench.gateway"
"""What is run, and has the services that are named by default."""
_START_S = 300.0
"""Starting Python on a machine that is busy with others; no part of what is measured."""


@dataclass
class GatewayProcess:
    """A gateway over one folder. `start` again after `kill`, also in another process of ours: it goes on."""

    folder: Path
    services: str = f"{MODULE}:services"
    workers: int = 2
    concurrency: int = 32
    port: int = field(default=0)
    words: Sequence[str] = ()
    """More arguments of the command."""
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.effects = self.folder / "effects"
        self.effects.mkdir(parents=True, exist_ok=True)
        self.token = _token(self.folder / "gateway" / "tokens")
        self.port = self.port or _free_port()

    @property
    def url(self) -> str:
        """Of the service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis_socket(self) -> Path:
        """Where our Redis server listens."""
        return self.folder / "gateway" / "redis" / "redis.sock"

    def start(self) -> None:
        """Start, and wait until calls are taken. Raises DeadlineError, TetherError where it ends at once."""
        words = ["gateway", "--folder", str(self.folder / "gateway"), "--port", str(self.port)]
        words += ["--workers", str(self.workers), "--concurrency", str(self.concurrency), "--services", self.services]
        words += self.words
        environ = {**os.environ, EFFECTS_VARIABLE: str(self.effects), "OMP_NUM_THREADS": "1"}
        with (self.folder / "gateway.log").open("ab") as log:
            command = [sys.executable, "-m", MODULE, *words]
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        until_s = time.monotonic() + _START_S
        while not self._healthy():
            if self.process.poll() is not None:
                raise TetherError(f"the gateway ended with {self.process.returncode}; see {self.folder}/gateway.log")
            if time.monotonic() > until_s:
                raise DeadlineError("the gateway's health", _START_S, [self.url])
            time.sleep(0.05)

    def _healthy(self) -> bool:
        import httpx

        try:
            return bool(httpx.get(f"{self.url}/health", timeout=2.0, trust_env=False).status_code == 200)
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """Kill it with signal 9; its workers and Redis stay."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End it, its workers and Redis."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60.0)
            self.kill()

    def end_left_over(self) -> None:
        """Kill gateways that a killed process of ours left running over this folder; one port each, one is enough."""
        own = None if self.process is None else self.process.pid
        for process in self._having(MODULE, str(self.folder / "gateway")):
            if process.pid != own:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait(10.0)

    def worker_pids(self) -> list[int]:
        """Of the workers that the gateway started."""
        return [process.pid for process in self._having("tether.gateway.worker", str(self.redis_socket))]

    def redis_pids(self) -> list[int]:
        """Of the Redis server over this folder, whoever started it. Workers name its socket, too, but are no server."""
        every = self._having(str(self.redis_socket))
        return [process.pid for process in every if "-server" in process.info["cmdline"][0]]

    @staticmethod
    def _having(*words: str) -> Iterator[psutil.Process]:
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or ()
            if all(any(word in each for each in line) for word in words):
                yield process


def _token(folder: Path) -> str:
    """The client's token, that of before where there is one."""
    path = folder / "bench.token"
    return path.read_text(encoding="utf-8").strip() if path.exists() else make_token(folder, "bench")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
