"""The parent's side of a skill's worker: start it, ask it, and kill it so that nothing it held is left."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tether.agent.worker import FRAME_MAX, HEAD, Kind
from tether.codec import decode, encode
from tether.codec.convert import action_from, fused_state_message
from tether.contracts import FusedState, HybridAction
from tether.errors import TetherError

START_S = 60.0
"""Starting Python and opening a model on a busy small machine; not part of any skill's time limit."""


class WorkerLostError(TetherError):
    """The worker is gone: killed, crashed, or silent past its time, and then killed. What it did is not known."""


class SkillRaisedError(TetherError):
    """The skill's code raised; the worker lives. The text is the exception's own."""


class Worker:
    """One worker process in a group of its own. Use as a context manager; leaving it kills the whole group."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tether.agent.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            env=environment,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._from, False)
        self._killed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._from, selectors.EVENT_READ)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Process id, which is also the group's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._killed and self._process.poll() is None

    def begin(
        self, entry: str, folder: Path, parameters: Mapping[str, float], *, keep: bool, fresh: bool, seed: int
    ) -> None:
        """Make the policy of `entry` the one that decides.

        keep: an entry that runs again goes on with what it remembers. fresh: forget all that was kept, for a new
        episode. Raises WorkerLostError, SkillRaisedError.
        """
        order = {"entry": entry, "folder": str(folder), "parameters": dict(parameters)}
        self._ask(Kind.BEGIN, json.dumps({**order, "keep": keep, "fresh": fresh, "seed": seed}).encode(), START_S)

    def decide(self, state: FusedState, within_s: float) -> HybridAction:
        """The action for `state`. Silent for `within_s`, it is killed. Raises WorkerLostError, SkillRaisedError."""
        answer = self._ask(Kind.STATE, encode(fused_state_message(state, 0)), within_s)
        try:
            return action_from(decode(answer, "tether_msgs/msg/HybridAction"))
        except ValueError as error:
            raise SkillRaisedError(f"an action that is none: {error}") from error

    def kill(self) -> None:
        """Kill the process and everything it started, and free its pipes; returns once it is gone."""
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError):  # gone by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, kind: Kind, content: bytes, within_s: float) -> bytes:
        until_s = time.monotonic() + within_s
        if self._killed:
            raise WorkerLostError(f"worker {self.pid} was killed")
        try:
            frame = memoryview(HEAD.pack(len(content), kind) + content)
            while frame:
                frame = frame[os.write(self._to, frame) :]
            size, answered = HEAD.unpack(self._read(HEAD.size, until_s))
            if size > FRAME_MAX:
                raise WorkerLostError(f"worker {self.pid}: a frame of {size} bytes")
            answer = self._read(size, until_s)
        except (OSError, ValueError) as error:
            self.kill()
            raise WorkerLostError(f"worker {self.pid}: {error}") from error
        except WorkerLostError:
            self.kill()
            raise
        if answered == Kind.ERROR:
            raise SkillRaisedError(answer.decode("utf-8", "replace"))
        return answer

    def _read(self, size: int, until_s: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            if not self._selector.select(max(until_s - time.monotonic(), 0.0)):
                raise WorkerLostError(f"worker {self.pid} was silent past its time and was killed")
            part = os.read(self._from, size - len(parts))
            if not part:
                raise WorkerLostError(f"worker {self.pid} ended with status {self._process.wait()}")
            parts += part
        return bytes(parts)
