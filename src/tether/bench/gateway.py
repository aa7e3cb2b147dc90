"""`tether bench gateway`: many calls at a time, with kills of workers, Redis and the gateway in between.

What is run is a gateway as `tether gateway` starts it. Its executor has an effect that can be counted: it adds one byte
to a file of the call's name, so two bytes are a call that was run twice, and none is an effect that is absent. Sensors
are replaced by a look at that file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tether.agent.calls import Call, Fact, Feedback, Outcome, Status, Value
from tether.arguments import not_negative, positive
from tether.bench.figures import Benchmark, Metric
from tether.errors import DeadlineError, Fault, InvalidInputError, TetherError
from tether.gateway.records import Effect
from tether.gateway.services import ParameterInfo, Services, SkillInfo, Step
from tether.gateway.tokens import make_token
from tether.progress import Progress

EFFECTS_VARIABLE = "TETHER_BENCH_EFFECTS"
_SKILL = SkillInfo("mark", 1, "adds a byte to a file", (ParameterInfo("work_ms", 0.0, 10_000.0, "ms"),), 20.0)
_CALL_S = 60.0
_START_S = 300.0
"""Starting Python on a machine that is busy with others; no part of what is measured."""
_END_S = 300.0


class Marks:
    """Effects that can be counted: one file a call. Executor, verifier and catalogue of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """Work for `work_ms`, half before the effect and half after it."""
        half_s = call.parameters["work_ms"] * 0.5e-3
        for step in ("before", "after"):
            until_s = time.monotonic() + half_s
            while (left_s := until_s - time.monotonic()) > 0.0:
                time.sleep(min(left_s, 0.02))
                if cancelled():
                    return Outcome(call.call_id, Status.CANCELLED, "cancelled")
            if step == "before":
                on_feedback(Feedback(call.call_id, step, 0.5, 1))
                self._mark(call.call_id)
        return Outcome(call.call_id, Status.DONE)

    def _mark(self, call_id: str) -> None:
        fd = os.open(self._folder / call_id.partition("#")[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, b"1")
        finally:
            os.close(fd)

    def count(self, call_id: str) -> int:
        """How often a call had its effect."""
        try:
            return (self._folder / call_id.partition("#")[0]).stat().st_size
        except FileNotFoundError:
            return 0

    def verify(self, call: Call) -> tuple[Effect, tuple[Fact, ...]]:
        """Look at the file."""
        marks = self.count(call.call_id)
        return (Effect.HAPPENED if marks else Effect.ABSENT), (Fact("marks", float(marks), time.time_ns(), "file"),)

    def skills(self) -> Sequence[SkillInfo]:
        """One."""
        return (_SKILL,)

    def register(self, declaration: str) -> SkillInfo:
        """None but the one."""
        raise InvalidInputError("skill", [Fault("declaration", declaration[:40], "nothing: the skill is built in")])

    def plan(self, task: str, facts: Mapping[str, Value]) -> Sequence[Step]:
        """One step, until the task's mark is there."""
        return () if facts.get(f"marked_{task}") else (Step(_SKILL.name, {"work_ms": 0.0}),)


def services() -> Services:
    """What the gateway and its workers load."""
    marks = Marks(Path(os.environ[EFFECTS_VARIABLE]))
    return Services(marks, marks, marks)


def blind_services() -> Services:
    """The same with nobody who could verify an effect."""
    marks = Marks(Path(os.environ[EFFECTS_VARIABLE]))
    return Services(marks, marks, None)


@dataclass
class GatewayProcess:
    """`tether gateway` as a process of its own, over one folder. `start` again after `kill`: it goes on."""

    folder: Path
    services: str = "tether.bench.gateway:services"
    workers: int = 2
    concurrency: int = 32
    port: int = field(default=0)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.effects = self.folder / "effects"
        self.effects.mkdir(parents=True, exist_ok=True)
        self.marks = Marks(self.effects)
        self.token = make_token(self.folder / "gateway" / "tokens", "bench")
        self.port = self.port or _free_port()

    @property
    def url(self) -> str:
        """Of the service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis_pid_file(self) -> Path:
        """Where our Redis server lies."""
        return self.folder / "gateway" / "redis" / "redis.sock"

    def start(self) -> None:
        """Start, and wait until calls are taken. Raises DeadlineError."""
        words = ["gateway", "--folder", str(self.folder / "gateway"), "--port", str(self.port)]
        words += ["--workers", str(self.workers), "--concurrency", str(self.concurrency), "--services", self.services]
        environ = {**os.environ, EFFECTS_VARIABLE: str(self.effects), "OMP_NUM_THREADS": "1"}
        with (self.folder / "gateway.log").open("ab") as log:
            command = [sys.executable, "-m", "tether.bench.gateway", *words]
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

    def worker_pids(self) -> list[int]:
        """Of the workers that the gateway started."""
        return self._pids("tether.gateway.worker")

    def redis_pids(self) -> list[int]:
        """Of the Redis server over this folder, whoever started it."""
        return [p.pid for p in _processes() if str(self.redis_pid_file) in " ".join(p.info["cmdline"] or ())]

    def _pids(self, module: str) -> list[int]:
        url = str(self.redis_pid_file)
        lines = ((p.pid, " ".join(p.info["cmdline"] or ())) for p in _processes())
        return [pid for pid, line in lines if module in line and url in line]


def _processes() -> Iterator[psutil.Process]:
    yield from psutil.process_iter(["cmdline"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Load:
    """Calls, so many at a time. Each is offered again, under its id, until the gateway has answered for it."""

    def __init__(self, gateway: GatewayProcess, calls: int, concurrent: int, work_ms: float, seed: int) -> None:
        self._gateway, self._concurrent, self._work_ms = gateway, concurrent, work_ms
        self._random = random.Random(seed)
        self.ids = [f"bench-{seed}-{n}" for n in range(calls)]
        self.latencies_ms: list[float] = []
        self.states: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.refusals: Counter[str] = Counter()
        self.done = asyncio.Event()

    async def run(self, progress: Progress) -> None:
        """Offer them all."""
        import httpx

        limits = httpx.Limits(max_connections=self._concurrent, max_keepalive_connections=self._concurrent)
        headers = {"Authorization": f"Bearer {self._gateway.token}"}
        waiting = iter(self.ids)
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

        work_ms = self._random.uniform(0.0, 2.0 * self._work_ms)
        body = {"call_id": call_id, "task_id": f"task-{hash(call_id) % 50}", "skill": "mark", "timeout_s": _CALL_S}
        body["parameters"] = {"work_ms": round(work_ms, 3)}
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
                await asyncio.sleep(float(reply.headers["Retry-After"]) * self._random.uniform(0.5, 1.0))
                continue
            if reply.status_code != 202:
                raise TetherError(f"call {call_id}: {reply.status_code} {reply.text[:300]}")
            fields = reply.json()
            if fields["outcome"] is not None:
                self.states[call_id], self.attempts[call_id] = fields["state"], fields["attempt"]
                if offered == 1:  # others were refused or cut off, and say how long that took
                    self.latencies_ms.append((time.monotonic() - begun_s) * 1e3 - work_ms)
                return


async def _kill_in_turn(gateway: GatewayProcess, load: Load, every_s: float, killed: Counter[str]) -> None:
    chance = random.Random(1)
    for what in itertools.cycle(("worker", "redis", "worker", "gateway")):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(load.done.wait(), every_s * chance.uniform(0.7, 1.3))
        if load.done.is_set():
            return
        if what == "gateway":
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
            killed[what] += 1
            continue
        pids = gateway.redis_pids() if what == "redis" else gateway.worker_pids()
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed[what] += 1


@dataclass(frozen=True)
class Tally:
    """What became of the calls. doubled: had their effect more than once; contradicting: done without an effect, or
    failed, timed out before they began, with one."""

    lost: int
    doubled: int
    contradicting: int
    by_state: Mapping[str, int]
    retried: int


def tally(load: Load, marks: Marks) -> Tally:
    """Compare what the gateway says with what happened."""
    counts = {call_id: marks.count(call_id) for call_id in load.ids}
    wrong = sum(
        (state == "done" and counts[call_id] == 0) or (state in ("failed", "timed_out") and counts[call_id] > 0)
        for call_id, state in load.states.items()
    )
    lost = sum(call_id not in load.states for call_id in load.ids)
    retried = sum(n > 1 for n in load.attempts.values())
    return Tally(lost, sum(n > 1 for n in counts.values()), wrong, Counter(load.states.values()), retried)


async def run_load(gateway: GatewayProcess, load: Load, kill_every_s: float, progress: Progress) -> Counter[str]:
    """All calls, with a kill in turn every so often (0: none). Returns how often what was killed."""
    killed: Counter[str] = Counter()
    killer = asyncio.create_task(_kill_in_turn(gateway, load, kill_every_s, killed)) if kill_every_s else None
    await load.run(progress)
    if killer is not None:
        await killer
    return killed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--calls", type=positive, default=10_000, help="with kills (default: %(default)s)")
    parser.add_argument("--quiet-calls", type=positive, default=2000, help="without (default: %(default)s)")
    parser.add_argument("--concurrent", type=positive, default=64, help="calls at a time (default: %(default)s)")
    parser.add_argument("--kill-every-s", type=float, default=3.0, help="0: no kills (default: %(default)s)")
    parser.add_argument("--work-ms", type=float, default=50.0, help="mean length of a call (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=2, help="worker processes (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, help="(default: %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """First without kills, for latencies; then with them. Raises TetherError where a call is lost or run twice."""
    if not 0.0 <= arguments.kill_every_s <= 3600.0 or not 0.0 <= arguments.work_ms <= 5000.0:
        found = f"--kill-every-s {arguments.kill_every_s:g} --work-ms {arguments.work_ms:g}"
        raise InvalidInputError("bench gateway", [Fault("arguments", found, "0 to 3600 s, 0 to 5000 ms")])
    metrics, notes = {}, []
    for name, calls, every_s in (("quiet", arguments.quiet_calls, 0.0), ("kills", arguments.calls, None)):
        kill_every_s = arguments.kill_every_s if every_s is None else every_s
        with tempfile.TemporaryDirectory(prefix="tether-gw-") as folder:
            gateway = GatewayProcess(Path(folder), workers=arguments.workers)
            try:
                gateway.start()
                load = Load(gateway, calls, arguments.concurrent, arguments.work_ms, arguments.seed)
                begun_s = time.monotonic()
                killed = asyncio.run(run_load(gateway, load, kill_every_s, Progress(calls, f"calls ({name})")))
                took_s = time.monotonic() - begun_s
            finally:
                gateway.stop()
            told = tally(load, gateway.marks)
        metrics[f"{name}_latency_beyond_work"] = Metric.of(load.latencies_ms, "ms")
        metrics[f"{name}_calls_per_s"] = Metric.of([calls / took_s], "1/s")
        for label, value in (("lost", told.lost), ("run_twice", told.doubled), ("contradicting", told.contradicting)):
            metrics[f"{name}_{label}"] = Metric.of([value], "calls")
        states = ", ".join(f"{n} {state}" for state, n in sorted(told.by_state.items()))
        notes.append(f"{name}: {states}; {told.retried} tried again once their effect was seen to be absent")
        notes.append(f"{name}: killed {dict(killed)}; answers to come again or none {dict(load.refusals)}")
        if told.lost or told.doubled or told.contradicting:
            raise TetherError(f"bench gateway: {name}: {told}")
    notes.append(f"{arguments.concurrent} calls at a time; latency: of calls answered at once, less the work itself")
    return Benchmark("gateway", metrics, {}, tuple(notes))


def _main(words: Sequence[str]) -> int:
    """The command, where the package's table of commands may lack it."""
    from tether.gateway import cli

    parser = argparse.ArgumentParser(prog="tether")
    parser.add_argument("-v", "--verbose", action="store_true")
    cli.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
