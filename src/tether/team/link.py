"""Frames between the robot's process and an agent's, over a unix socket: decisions pass here, never through Redis.

The agent leads. START, ADVANCE and STOP move the robot, and each is answered by FACTS; while the robot advances, its
policy stage asks for the decision by STATE (CDR of tether_msgs/FusedState), which the agent answers by ACTION (CDR of
tether_msgs/HybridAction) or by HOLD (why, in words). ENDED says that the outcome of the step stands in the task's
record. Where the policy stage is a process of its own, the agent has a second link, to that one: STATE comes there.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from tether.agent.calls import Fact
from tether.agent.facts import Facts
from tether.agent.worker import FRAME_MAX, HEAD
from tether.errors import DeadlineError, Fault, InvalidInputError, TetherError
from tether.memory.working import fact_fields, fact_from

SEND_S = 10.0
"""For a whole frame to be taken by the other side."""
HELLO_S = 10.0


class LinkKind(IntEnum):
    """Kinds of frames."""

    HELLO = 1
    START = 2
    ADVANCE = 3
    STOP = 4
    FACTS = 5
    STATE = 6
    ACTION = 7
    HOLD = 8
    ENDED = 9


class LinkLostError(TetherError):
    """The other side is gone, or says what is no frame."""


class Link:
    """One side of a connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.settimeout(SEND_S)

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Closing again does nothing."""
        self._socket.close()

    def send(self, kind: LinkKind, content: bytes = b"") -> None:
        """One frame. Raises LinkLostError."""
        try:
            self._socket.sendall(HEAD.pack(len(content), kind) + content)
        except OSError as error:
            raise LinkLostError(str(error)) from error

    def send_fields(self, kind: LinkKind, **fields: Any) -> None:
        """One frame of JSON. Raises LinkLostError."""
        self.send(kind, json.dumps(fields, allow_nan=False).encode())

    def receive(self, within_s: float) -> tuple[LinkKind, bytes]:
        """The next frame. Raises DeadlineError where none begins within that time, LinkLostError."""
        try:
            if not select.select([self._socket], [], [], within_s)[0]:
                raise DeadlineError("a frame", within_s, ["the other side of the link"])
            until_s = time.monotonic() + SEND_S
            size, kind = HEAD.unpack(self._exactly(HEAD.size, until_s))
            if size > FRAME_MAX:
                raise LinkLostError(f"a frame of {size} bytes")
            return LinkKind(kind), self._exactly(size, until_s)
        except (OSError, ValueError) as error:
            raise LinkLostError(str(error)) from error

    def _exactly(self, size: int, until_s: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part or time.monotonic() > until_s:
                raise LinkLostError("the other side is gone" if not part else "half a frame, and no more")
            parts += part
        return bytes(parts)


class Listener:
    """Where agents' processes call, on a path that only this user reaches."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidInputError where there can be no socket."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
            self._listener.listen(8)
        except OSError as error:
            self._listener.close()
            fault = Fault("socket", f"{path}: {error}", "a path that a socket can have")
            raise InvalidInputError("agents", [fault], "name a shorter folder for temporary files: $TMPDIR") from error
        self._listener.setblocking(False)

    def close(self) -> None:
        """Closing again does nothing."""
        self._listener.close()

    def callers(self) -> Iterator[tuple[str, int, Link]]:
        """Those who have called since the last look: name, process id and link. Waits for nobody to call."""
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            link = Link(sock)
            try:
                kind, content = link.receive(HELLO_S)
                hello = json.loads(content)
                if kind is not LinkKind.HELLO:
                    raise LinkLostError(f"{kind.name} where HELLO was due")
                name, pid = str(hello["name"]), int(hello["pid"])
            except (LinkLostError, DeadlineError, ValueError, KeyError, TypeError):
                link.close()  # of a process that was killed meanwhile
                continue
            yield name, pid, link


def heard_first(links: Sequence[Link], within_s: float) -> Link:
    """The one of them that has something to say. Raises DeadlineError where none has in that time, LinkLostError."""
    try:
        ready = select.select(links, [], [], within_s)[0]
    except (OSError, ValueError) as error:
        raise LinkLostError(str(error)) from error
    if not ready:
        raise DeadlineError("a frame", within_s, ["the other side of the link"])
    return ready[0]


def packed_facts(facts: Facts) -> list[dict[str, Any]]:
    """Facts for JSON."""
    return [fact_fields(fact) for fact in facts.values()]


def facts_from(fields: list[dict[str, Any]]) -> dict[str, Fact]:
    """What `packed_facts` gave."""
    return {fact.name: fact for fact in map(fact_from, fields)}


@contextlib.contextmanager
def connected(path: str) -> Any:
    """A link to the robot's process. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        yield Link(sock)
