"""Critical state for a control loop: `submit` costs microseconds, a thread of its own does the rest.

The queue is bounded. Where it is full the newest values join the last update that waits: the state is never behind
what was submitted for longer than the disk takes, only steps between are not kept (and counted).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tether.errors import DeadlineError, InvalidInputError, TetherError
from tether.integrity.record import Finding, Snapshot, StateError, Wrong
from tether.integrity.store import Store

_LOG = logging.getLogger(__name__)
QUEUE_MAX = 64
RETRY_S = 1.0


@dataclass
class _Update:
    values: dict[str, bytes]
    stamp_ns: int


class Keeper:
    """A `Store` behind a thread. One caller's thread; a context manager.

    `fault` says why the state is not to be relied on now (None: it is): it is not known to be the newest, or an update
    has not reached the disk. What was found wrong comes from `take_findings`, as events.
    """

    def __init__(self, folder: Path, initial: Mapping[str, bytes], stamp_ns: int) -> None:
        """Opens the store, in the caller's thread. Raises what `Store` raises."""
        self._store = Store(folder, initial, stamp_ns)
        self._names = frozenset(initial)
        self._wake = threading.Condition()
        self._queue: deque[_Update] = deque()
        self._asked: dict[str, str] = {}
        self._findings: deque[Finding] = deque(self._store.take_findings(), maxlen=256)
        self._busy = self._closing = False
        self._not_stored: str | None = None
        self._times_ns: deque[int] = deque(maxlen=4096)
        self.merged = 0
        """Updates that found the queue full and joined the one before."""
        self._thread = threading.Thread(target=self._work, name=f"state {folder.name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot:
        """The state that is on the disk. The newest of what was submitted may still be on its way."""
        return self._store.snapshot

    @property
    def fault(self) -> str | None:
        """Why the state is not to be relied on now; None where it is."""
        return self._not_stored or self._store.unproven or None

    @property
    def times_ns(self) -> list[int]:
        """How long the newest updates took in the thread, disk included."""
        return list(self._times_ns)

    def submit(self, changes: Mapping[str, bytes], stamp_ns: int) -> None:
        """Set values, soon. Never waits for the disk. Raises InvalidInputError for names or types that do not belong;
        nothing of that update is then taken."""
        self._store.check(changes)
        with self._wake:
            if len(self._queue) >= QUEUE_MAX:
                last = self._queue[-1]
                last.values.update(changes)
                last.stamp_ns = stamp_ns
                self.merged += 1
            else:
                self._queue.append(_Update(dict(changes), stamp_ns))
            self._wake.notify()

    def acknowledge(self, reason: str) -> None:
        """A person takes a state that is not known to be the newest. InvalidInputError without a reason."""
        if not reason.strip():
            self._store.acknowledge(reason, 0)
        with self._wake:
            self._asked["acknowledge"] = reason
            self._wake.notify()

    def take_findings(self) -> list[Finding]:
        """What was found wrong since the last call."""
        with self._wake:
            taken = list(self._findings)
            self._findings.clear()
        return taken

    def settle(self, deadline_s: float) -> None:
        """Wait until what was submitted is on the disk; DeadlineError where it is not in time."""
        with self._wake:
            done = self._wake.wait_for(lambda: not (self._queue or self._asked or self._busy), deadline_s)
        if not done:
            raise DeadlineError("critical state on the disk", deadline_s)

    def close(self, deadline_s: float = 10.0) -> None:
        """Write what waits, and close. Raises DeadlineError where the disk does not take it in time."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise DeadlineError("critical state on the disk", deadline_s)
        self._store.close()

    # The thread

    def _work(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._queue or self._asked or self._closing)
                if not self._queue and not self._asked:
                    return
                self._busy = True
                update = self._queue[0] if self._queue else None
                reason = self._asked.pop("acknowledge", None)
            done = self._write(update, reason)
            with self._wake:
                self._findings.extend(self._store.take_findings())
                if done and update is not None:
                    self._queue.popleft()
                elif not done and self._closing:
                    _LOG.error("%s: closed with %d updates not stored", self._store.folder, len(self._queue))
                    self._queue.clear()
                elif not done:
                    self._wake.wait_for(lambda: self._closing, RETRY_S)

    def _write(self, update: _Update | None, reason: str | None) -> bool:
        start = time.perf_counter_ns()
        try:
            if reason is not None:
                self._store.acknowledge(reason, time.time_ns())
            if update is not None:
                self._store.put(dict(update.values), update.stamp_ns)
        except InvalidInputError as error:  # too large with what else there is: trying again changes nothing
            self._say_not_stored(error)
            return True
        except StateError as error:
            if self._not_stored is None:
                self._say_not_stored(error)
            self._not_stored = str(error)
            return False
        self._not_stored = None
        self._times_ns.append(time.perf_counter_ns() - start)
        return True

    def _say_not_stored(self, error: TetherError) -> None:
        _LOG.error("%s", error)
        with self._wake:
            self._findings.append(Finding(Wrong.NOT_STORED, str(error)))
