"""Puts a fault into a live graph and takes it out again."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

from tether.errors import TetherError
from tether.faults.graph import LiveGraph
from tether.faults.table import Action, FaultSpec
from tether.faults.wire import Effect

Lift = Callable[[], None]
_SIGNALS = {
    Action.KILL: signal.SIGKILL,
    Action.FREEZE: signal.SIGSTOP,
    Action.RAISE: signal.SIGUSR1,
    Action.ABORT: signal.SIGABRT,
}
_BUSY = "while True: pass"


class FaultInGraph:
    """A fault that is in the graph. injected_ns: steady time at which it took effect."""

    def __init__(self, graph: LiveGraph, spec: FaultSpec) -> None:
        self._graph, self._spec = graph, spec
        self._lift: Lift = _nothing
        self.injected_ns = self._put_in()

    def pulse(self) -> None:
        """Called again and again while the fault lasts."""
        if self._spec.action is Action.INTRUDE:
            self._graph.probe.order("intrude", value=_number(self._spec.amount))

    def lift(self) -> None:
        """The cause is gone. What was killed, or has ended meanwhile, stays dead."""
        with contextlib.suppress(ProcessLookupError):
            self._lift()

    def _put_in(self) -> int:
        spec, probe = self._spec, self._graph.probe
        action = spec.action
        if action in _SIGNALS:
            return self._send(_SIGNALS[action])
        if action is Action.WIRE:
            self._lift = lambda: _ignore(probe.order("wire", topic=spec.target, effect=Effect.PASS.value, amount=0.0))
            return int(probe.order("wire", topic=spec.target, effect=spec.effect.value, amount=spec.amount)["at_ns"])
        if action is Action.FLOOD:
            self._lift = lambda: _ignore(probe.order("flood", topic=spec.target, rate_hz=0.0))
            return int(probe.order("flood", topic=spec.target, rate_hz=spec.amount)["at_ns"])
        if action is Action.INTRUDE:
            return int(probe.order("intrude", value=_number(spec.amount))["at_ns"])
        if action is Action.CLOCK:
            self._lift = lambda: _ignore(probe.order("clock", shift_ns=None))
            return int(probe.order("clock", shift_ns=round(spec.amount * 1e6))["at_ns"])
        if action in (Action.REWARD, Action.UNSIGNED):
            return self._forge_reward(spec.amount, signed=action is Action.REWARD)
        return self._disturb(action)

    def _disturb(self, action: Action) -> int:
        """What does not go through a signal or the probe."""
        if action is Action.STARVE:
            return self._starve()
        if action is Action.FULL_DISK:
            return self._fill_disk()
        if action is Action.TAMPER:
            return self._tamper()
        return time.monotonic_ns()

    def _send(self, number: int) -> int:
        pid = self._graph.pid(self._spec.target)
        at_ns = time.monotonic_ns()
        os.kill(pid, number)
        if number == signal.SIGSTOP:
            self._lift = lambda: os.kill(pid, signal.SIGCONT)
        return at_ns

    def _forge_reward(self, value: float, signed: bool = True) -> int:
        episode = self._graph.series.episodes[-1][1]
        return int(self._graph.probe.order("reward", episode=episode, value=value, signed=signed)["at_ns"])

    def _starve(self) -> int:
        number = max(round(self._spec.amount * (os.cpu_count() or 1)), 1)
        busy = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(number)]

        def end() -> None:
            for process in busy:
                process.kill()
            for process in busy:
                process.wait()

        self._lift = end
        return time.monotonic_ns()

    def _fill_disk(self) -> int:
        """The gate cannot write a byte to any file; then it is given something to write down."""
        pid = self._graph.pid(self._spec.target)
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        self._lift = lambda: _ignore(resource.prlimit(pid, resource.RLIMIT_FSIZE, before))
        return self._forge_reward(self._spec.amount)

    def _tamper(self) -> int:
        """As somebody who may write the file and knows how: triggers dropped, history changed."""
        files = sorted(self._graph.state_folder.glob("*.db"))
        if not files:
            raise TetherError(f"no database of critical state in {self._graph.state_folder}")
        with contextlib.closing(sqlite3.connect(files[0], timeout=5.0)) as database, database:
            master = database.execute("SELECT type, name FROM sqlite_master").fetchall()
            for name in [name for kind, name in master if kind == "trigger"]:
                database.execute(f'DROP TRIGGER "{name}"')
            for name in [name for kind, name in master if kind == "table" and not name.startswith("sqlite_")]:
                database.execute(f'DELETE FROM "{name}" WHERE rowid = (SELECT max(rowid) FROM "{name}")')
        return time.monotonic_ns()


def _number(amount: float) -> str:
    """What an intruder says in place of numbers: not a number for 0, else infinite."""
    return "nan" if amount == 0.0 else "inf"


def _nothing() -> None:
    """Nothing to lift."""


def _ignore(answer: object) -> None:
    """An answer that says nothing but that it was done."""
