"""A worker: takes calls from the journal and has its executor run them, each in a thread of its own.

    python -m tether.gateway.worker --redis URL --services MODULE:FUNCTION --name NAME

Right before the executor it says `begin`, right after `finish`. Where it is killed between the two, nobody knows
whether the effect happened, and the journal says so.
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import psutil

from tether.agent.calls import Feedback, Outcome, Status
from tether.arguments import positive
from tether.errors import InvalidInputError, TetherError
from tether.gateway.journal import WorkerJournal
from tether.gateway.records import PREFIX, Effect, GatewayConfig, Job
from tether.gateway.services import Services, load_services
from tether.gateway.tracing import TraceHandler, log_with_tasks, working_on
from tether.memory.redis_server import Client, connect

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
POLL_S = 0.25
"""Longest time between two polls; the bell makes it shorter."""
BEAT_S = 1.0
_FEEDBACK_S = 0.5
_RETRY_S = 0.1
_NOTES_MAX = 1000
_DRAIN_S = 20.0


@dataclass
class _Running:
    job: Job
    cancel: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Runs until `stop`, then ends what it has begun. One thread calls `run`."""

    def __init__(
        self,
        client: Client,
        name: str,
        services: Services,
        *,
        concurrency: int = 8,
        attempts_max: int = 3,
        prefix: str = PREFIX,
    ) -> None:
        self._journal = WorkerJournal(client, name, prefix)
        self._client, self._services, self._prefix = client, services, prefix
        self._concurrency, self._attempts_max = concurrency, attempts_max
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="call")
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._notes: queue.Queue[tuple[str, str, str, str]] = queue.Queue(_NOTES_MAX)
        self._turns = 0
        self._created_s = psutil.Process().create_time()
        self.notes_lost = 0

    def stop(self) -> None:
        """Take nothing more, end what was begun. Safe in a signal handler."""
        self._stop.set()
        self._wake.set()

    def note(self, task_id: str, call_id: str, event: str, detail: str) -> None:
        """Into the task's trace, soon; never waits. What finds the queue full is counted and dropped."""
        try:
            self._notes.put_nowait((task_id, call_id, event, detail))
        except queue.Full:
            self.notes_lost += 1

    def run(self) -> None:
        """Work. Raises TetherError where executors do not end when they are cancelled: end the process then, which is
        what makes sure that they do."""
        for target in (self._hear, self._write_notes):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        drain_until_s = float("inf")
        next_beat_s = 0.0
        while True:
            stopping = self._stop.is_set()
            now_s = time.monotonic()
            if stopping:
                drain_until_s = min(drain_until_s, now_s + _DRAIN_S)
                if not self._running:
                    break
                if now_s > drain_until_s:
                    raise TetherError(f"{len(self._running)} calls did not end within {_DRAIN_S:g} s")
            beat = now_s >= next_beat_s
            next_beat_s = now_s + BEAT_S if beat else next_beat_s
            self._turn(beat=beat, room=0 if stopping else self._concurrency)
            self._wake.wait(POLL_S)
            self._wake.clear()
        self._persist(self._journal.leave)

    def _turn(self, *, beat: bool, room: int) -> None:
        self._turns += 1
        with self._lock:
            known = dict(self._running)
        gone = sum(running.cancel.is_set() for running in known.values())
        verifies = self._services.verifier is not None
        text = {
            "pid": os.getpid(), "host": socket.gethostname(), "created_s": self._created_s,
            "beat_steady_ns": time.monotonic_ns(), "turns": self._turns, "calls": len(known),
            "verifies": verifies,
        }  # fmt: skip
        polled = self._patiently(
            lambda: self._journal.poll(max(0, room), known, text if beat else None, verifies=verifies)
        )
        if polled is None:
            return
        for job in polled.jobs:
            running = _Running(job)
            with self._lock:
                self._running[job.call_id] = running
            self._pool.submit(self._work, running).add_done_callback(partial(self._ended, running))
        for call_id, running in known.items():
            if call_id in polled.cancels or call_id not in polled.mine:
                running.cancel.set()
        lost = sum(call_id not in polled.mine for call_id in known)
        if gone >= self._concurrency and lost >= self._concurrency:
            raise TetherError("every thread is held by an executor that does not end when it is cancelled")

    # In a call's thread

    def _work(self, running: _Running) -> Outcome | None:
        job = running.job
        with working_on(job.call.task_id, job.call_id):
            if job.verify:
                self._verify(job)
                return None
            if not self._persist(lambda: self._journal.begin(job.call_id, job.attempt)):
                return None
            try:
                return self._services.executor.execute(job.call, self._feedback(job), running.cancel.is_set)
            except InvalidInputError as error:  # by contract before anything is done
                return Outcome(job.call.call_id, Status.FAILED, f"refused: {error}")

    def _verify(self, job: Job) -> None:
        verifier = self._services.verifier
        if verifier is None:
            raise AssertionError("asked to verify without a verifier")
        found = verifier.verify(job.call)
        if isinstance(found, Outcome):
            self._persist(lambda: self._journal.finish(job.call_id, job.attempt, found, verifies=True))
            return
        effect, facts = found
        self._persist(
            lambda: self._journal.verified(job.call_id, job.attempt, effect, facts, self._attempts_max),
        )

    def _ended(self, running: _Running, future: Future[Outcome | None]) -> None:
        job, error = running.job, future.exception()
        verifies = self._services.verifier is not None
        if error is not None:
            _LOG.error("call %s: %s: %s", job.call_id, type(error).__name__, error, exc_info=error)
        if error is not None and job.verify:
            self._persist(
                lambda: self._journal.verified(job.call_id, job.attempt, Effect.UNKNOWN, (), self._attempts_max)
            )
        else:
            outcome = future.result() if error is None else _raised(job, error)
            if outcome is not None:
                self._persist(partial(self._journal.finish, job.call_id, job.attempt, outcome, verifies=verifies))
        with self._lock:
            if self._running.get(job.call_id) is running:
                del self._running[job.call_id]
        self._wake.set()

    def _feedback(self, job: Job) -> Callable[[Feedback], None]:
        last_s = 0.0

        def say(feedback: Feedback) -> None:
            nonlocal last_s
            now_s = time.monotonic()
            if now_s - last_s >= _FEEDBACK_S:
                last_s = now_s
                detail = f"{feedback.step} {feedback.progress:.2f}, attempt {feedback.attempt}"
                self.note(job.call.task_id, job.call_id, "feedback", detail)

        return say

    # Talking to Redis

    def _patiently(self, ask: Callable[[], _T]) -> _T | None:
        """None where the server is gone for longer than the client waits; the loop asks again."""
        from redis.exceptions import RedisError

        try:
            return ask()
        except RedisError as error:
            _LOG.warning("journal: %s", error)
            return None

    def _persist(self, ask: Callable[[], _T]) -> _T:
        """Ask until it is answered: what happened must get on record, however long the server is gone."""
        from redis.exceptions import RedisError

        while True:
            try:
                return ask()
            except RedisError as error:
                _LOG.warning("journal: %s; trying again", error)
                time.sleep(_RETRY_S)

    def _hear(self) -> None:
        """The bell: something is to be done."""
        from redis.exceptions import RedisError

        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        subscribed = False
        while not self._stop.is_set():
            try:
                if not subscribed:
                    pubsub.subscribe(f"{self._prefix}bell")
                    subscribed = True
                if pubsub.get_message(timeout=1.0):
                    self._wake.set()
            except RedisError:
                time.sleep(_RETRY_S)
        pubsub.close()

    def _write_notes(self) -> None:
        while True:
            note = self._notes.get()
            self._patiently(partial(self._journal.note, *note))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="python -m tether.gateway.worker")
    parser.add_argument("--redis", required=True, help="URL of the journal's server")
    parser.add_argument("--services", required=True, help="MODULE:FUNCTION that makes what runs the calls")
    parser.add_argument("--name", required=True, help="of this process, never used twice")
    parser.add_argument("--concurrency", type=positive, default=8)
    parser.add_argument("--attempts-max", type=positive, default=GatewayConfig.attempts_max)
    parser.add_argument("--prefix", default=PREFIX)
    parser.add_argument("--parent", type=positive, default=None, help="end when this process does")
    arguments = parser.parse_args(argv)
    log_with_tasks(logging.INFO)
    worker = Worker(
        connect(arguments.redis),
        arguments.name,
        load_services(arguments.services),
        concurrency=arguments.concurrency,
        attempts_max=arguments.attempts_max,
        prefix=arguments.prefix,
    )
    logging.getLogger().addHandler(TraceHandler(worker.note))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    if arguments.parent is not None:
        threading.Thread(target=_end_with, args=(arguments.parent, worker), daemon=True).start()
    try:
        worker.run()
    except TetherError as error:
        _LOG.error("%s", error)
        os._exit(1)  # threads that never end would keep the process
    return 0


def _raised(job: Job, error: BaseException) -> Outcome:
    """An executor that raises has begun: nobody knows what it did."""
    failure = f"executor raised {type(error).__name__}: {error}"[:500]
    return Outcome(job.call.call_id, Status.OUTCOME_UNKNOWN, failure)


def _end_with(parent: int, worker: Worker) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    _LOG.warning("the gateway is gone; ending what was begun")
    worker.stop()


if __name__ == "__main__":
    sys.exit(main())
