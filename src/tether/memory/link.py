"""An agent's memory in a process of its own: whoever runs the graph has it open, and the agent in the graph asks over a
unix socket, when a task begins and when it has ended.

A message is a line of JSON: {"ask": NAME, …} from the agent, {"answer": …} or {"error": TEXT} back. What was asked for
is done once the whole line is there, and never for a part of it, so that an agent that is killed leaves a run learnt
whole or not at all. Nothing is sent twice. One agent at a time is answered.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.agent.declaration import AgentTask
from tether.agent.domain import Domain, State
from tether.agent.experience import Experience, Recalled
from tether.agent.graph import RunGraph
from tether.errors import Fault, InvalidInputError, TetherError

MESSAGE_MAX = 16 * 2**20
ANSWER_S = 90.0
"""For an answer: a slow disk and a server of the graph that is gone are within it."""
_POLL_S = 0.1
_PART = 2**16
_LOG = logging.getLogger(__name__)


class MemoryLinkError(TetherError):
    """The memory does not answer, says no, or says what is none."""


class MemoryServer:
    """Answers one agent at a time from a memory, which nobody else may use meanwhile. A context manager."""

    def __init__(self, memory: Experience, domain: Domain, path: Path) -> None:
        """path: of the socket, in a folder of this user's alone. Raises InvalidInputError where there can be none."""
        self._memory, self._domain, self.path = memory, domain, path
        self._turn, self._over = threading.Lock(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            fault = Fault("socket", f"{path}: {error}", "a path that a socket can have")
            raise InvalidInputError("memory", [fault], "name a shorter folder for temporary files: $TMPDIR") from error

    def __enter__(self) -> MemoryServer:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is being learnt is learnt to its end."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments, name="memory"))
        self._threads[-1].start()

    def _accept(self) -> None:
        while not self._over.is_set():
            if select.select([self._listener], [], [], _POLL_S)[0]:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the agent is gone: there is nobody to tell
            connection.settimeout(ANSWER_S)
            if not self._turn.acquire(blocking=False):
                _say(connection, {"error": "in use by another agent; one at a time"})
                return
            try:
                _say(connection, {"answer": None})
                while (line := _line(connection, self._over.is_set)) is not None:
                    _say(connection, self._answered(line))
            finally:
                self._turn.release()

    def _answered(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            return {"answer": self._asks[asked["ask"]](self, asked)}
        except (OSError, TetherError, ValueError, KeyError, TypeError, RecursionError) as error:
            _LOG.error("memory: %s: %s", type(error).__name__, error)
            return {"error": f"{type(error).__name__}: {error}"}

    def _recall(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        task = self._domain.tasks[asked["task"]]
        found = self._memory.recall(task, asked["state"], asked["parameters"], asked["ways"])
        return None if found is None else asdict(found)

    def _learn(self, asked: Mapping[str, Any]) -> list[str]:
        return list(self._memory.learn(RunGraph.of_record(asked["graph"]), _recalled(asked["recalled"])))

    _asks: Mapping[str, Callable[[MemoryServer, Mapping[str, Any]], Any]] = {"recall": _recall, "learn": _learn}


class RemoteMemory:
    """See `tether.agent.experience.Experience`: the agent's end."""

    def __init__(self, path: Path) -> None:
        """Raises MemoryLinkError where nobody answers there, or another agent is answered."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.connect(str(path))
            self._answer()
        except OSError as error:
            self._socket.close()
            raise MemoryLinkError(f"memory {path}: {error}") from error
        except MemoryLinkError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Closing again does nothing."""
        self._socket.close()

    def recall(
        self, task: AgentTask, state: State, parameters: Mapping[str, float], ways: Mapping[str, str]
    ) -> Recalled | None:
        """See `Experience.recall`. Raises MemoryLinkError."""
        asked = {"state": dict(state), "parameters": dict(parameters), "ways": dict(ways)}
        return _recalled(self._ask("recall", task=task.name, **asked))

    def learn(self, graph: RunGraph, recalled: Recalled | None) -> tuple[str, ...]:
        """See `Experience.learn`. Raises MemoryLinkError."""
        told = None if recalled is None else asdict(recalled)
        return tuple(self._ask("learn", graph=graph.record(), recalled=told))

    def _ask(self, name: str, **fields: Any) -> Any:
        try:
            _say(self._socket, {"ask": name, **fields})
            return self._answer()
        except OSError as error:
            raise MemoryLinkError(f"memory: {name}: {error}") from error

    def _answer(self) -> Any:
        until_s = time.monotonic() + ANSWER_S
        line = _line(self._socket, lambda: time.monotonic() > until_s)
        try:
            answer = None if line is None else json.loads(line)
        except ValueError as error:
            raise MemoryLinkError(f"memory: an answer that is not JSON: {error}") from error
        if answer is None or "error" in answer:
            why = "whoever has it open is gone, or silent" if answer is None else answer["error"]
            raise MemoryLinkError(f"memory: {why}")
        return answer["answer"]


def _recalled(fields: Mapping[str, Any] | None) -> Recalled | None:
    return None if fields is None else Recalled(**{**fields, "steps": tuple(fields["steps"])})


def _say(connection: socket.socket, fields: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(fields).encode() + b"\n")


def _line(connection: socket.socket, over: Callable[[], bool]) -> bytes | None:
    """The next whole line; None where the other side is gone, or where it is over and nothing more has come. Raises
    OSError for one without an end."""
    parts = bytearray()
    while True:
        if not select.select([connection], [], [], _POLL_S)[0]:
            if over():
                return None
            continue
        part = connection.recv(_PART)
        if not part:
            return None
        parts += part
        if parts.endswith(b"\n"):  # the other side waits for an answer: nothing follows
            return bytes(parts)
        if len(parts) > MESSAGE_MAX:
            raise OSError(f"a message of more than {MESSAGE_MAX} bytes")
