"""A strict answerer of Bolt 5.4 for tests. What it keeps is what a driver sent; it is no Neo4j server.

States and messages are those of https://neo4j.com/docs/bolt/current/bolt/server-state/; a message that has no place in
a state is put down in `faults`, and the connection is closed. PackStream is read and written by the driver's packer.
Whoever understands the Cypher is an `Engine`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from neo4j._codec.packstream import Structure
from neo4j._codec.packstream.v1 import PackableBuffer, Packer, UnpackableBuffer, Unpacker

Parameters = dict[str, Any]
Table = tuple[list[str], list[list[Any]]]
"""Columns and rows of an answer."""

NAMES = {
    0x01: "HELLO", 0x02: "GOODBYE", 0x0F: "RESET", 0x10: "RUN", 0x11: "BEGIN", 0x12: "COMMIT", 0x13: "ROLLBACK",
    0x2F: "DISCARD", 0x3F: "PULL", 0x54: "TELEMETRY", 0x66: "ROUTE", 0x6A: "LOGON", 0x6B: "LOGOFF",
}  # fmt: skip
NEXT = {
    ("negotiation", "HELLO"): "authentication", ("authentication", "LOGON"): "ready",
    ("ready", "LOGOFF"): "authentication", ("ready", "ROUTE"): "ready", ("ready", "TELEMETRY"): "ready",
    ("ready", "RUN"): "streaming", ("streaming", "PULL"): "ready", ("streaming", "DISCARD"): "ready",
    ("ready", "BEGIN"): "tx", ("tx", "RUN"): "tx_streaming", ("tx_streaming", "PULL"): "tx",
    ("tx_streaming", "DISCARD"): "tx", ("tx", "COMMIT"): "ready", ("tx", "ROLLBACK"): "ready",
}  # fmt: skip
"""(state, message) → state after SUCCESS. RESET and GOODBYE have their place in every state from `ready` on."""
SUCCESS, RECORD, IGNORED, FAILURE = 0x70, 0x71, 0x7E, 0x7F
PREAMBLE, BOLT_5_4 = b"\x60\x60\xb0\x17", b"\0\0\4\5"


class Failure(Exception):  # noqa: N818
    """What the server answers instead of success. code: as `Neo.ClientError.Statement.SyntaxError`."""

    def __init__(self, code: str, message: str = "as the test wants it") -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Gone(Exception):  # noqa: N818
    """The server breaks the connection off."""


class Engine(Protocol):
    """One transaction at a time, of one connection. `run` raises Failure for what it will not have."""

    def begin(self, read_only: bool) -> None: ...

    def run(self, text: str, parameters: Parameters) -> Table: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class Nothing:
    """Understands no Cypher: whatever is asked, there is nothing."""

    def begin(self, read_only: bool) -> None: ...

    def run(self, text: str, parameters: Parameters) -> Table:
        return [], []

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def node(number: int, labels: list[str], properties: Parameters) -> Structure:
    """As Bolt 5 has it."""
    return Structure(b"N", number, labels, properties, f"4:test:{number}")


@dataclass
class BoltServer:
    """meddle: may raise Failure or Gone, or wait, where a message (name, fields) has come and before it is answered."""

    engine: Engine = field(default_factory=Nothing)
    meddle: Callable[[str, list[Any]], None] = lambda name, fields: None
    agent: str = "Neo4j/5.13.0"
    version: bytes = BOLT_5_4
    received: list[tuple[str, list[Any]]] = field(default_factory=list)
    committed: list[list[tuple[str, Parameters]]] = field(default_factory=list)
    """What each transaction ran that was committed; one by itself is a transaction of one."""
    summary: Parameters = field(default_factory=dict)
    """What else stands behind the rows of every answer."""
    faults: list[str] = field(default_factory=list)
    port: int = 0

    def names(self) -> list[str]:
        """Messages in the order in which they came."""
        return [name for name, _ in self.received]

    @contextlib.contextmanager
    def serving(self) -> Iterator[BoltServer]:
        """Listen on a free port of this machine."""
        sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = sockets[0].getsockname()[1]

        def accept() -> None:
            while True:
                try:
                    one, _ = sockets[0].accept()
                except OSError:  # closed: the test is over
                    return
                sockets.append(one)
                threading.Thread(target=_Connection(self, one).serve, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield self
        finally:
            for one in sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def url(self, scheme: str = "bolt") -> str:
        return f"{scheme}://127.0.0.1:{self.port}"


class _Connection:
    def __init__(self, server: BoltServer, connection: socket.socket) -> None:
        self._server, self._socket = server, connection
        self._state = "negotiation"
        self._ran: list[tuple[str, Parameters]] = []
        self._rows: list[list[Any]] = []
        self._in_transaction = False

    def serve(self) -> None:
        try:
            if self._exactly(4) != PREAMBLE:
                self._server.faults.append("no Bolt")
                return
            self._exactly(16)
            self._socket.sendall(self._server.version)
            while self._message():
                pass
        except (OSError, EOFError, Gone):
            pass
        except Exception as error:  # noqa: BLE001
            self._server.faults.append(repr(error))
        finally:
            self._end(False)
            self._socket.close()

    def _message(self) -> bool:
        name, fields = self._read()
        self._server.received.append((name, fields))
        if name == "GOODBYE":
            return False
        try:
            self._server.meddle(name, fields)
            if name == "RESET" and self._state not in ("negotiation", "authentication"):
                self._end(False)
                self._state = "ready"
                self._send(SUCCESS, {})
                return True
            if self._state == "failed":
                self._send(IGNORED)
                return True
            following = NEXT.get((self._state, name))
            if following is None:
                self._server.faults.append(f"{name} in state {self._state}")
                self._send(FAILURE, {"code": "Neo.ClientError.Request.Invalid", "message": self._server.faults[-1]})
                return False
            self._send(SUCCESS, self._answer(name, fields))
            self._state = following
        except Failure as failure:
            self._send(FAILURE, {"code": failure.code, "message": failure.message})
            if self._state in ("negotiation", "authentication"):
                return False
            self._end(False)
            self._state = "failed"
        return True

    def _answer(self, name: str, fields: list[Any]) -> Parameters:
        engine = self._server.engine
        if name == "HELLO":
            return {"server": self._server.agent, "connection_id": "bolt-1", "hints": {"telemetry.enabled": True}}
        if name == "ROUTE":
            here = [f"127.0.0.1:{self._server.port}"]
            servers = [{"addresses": here, "role": role} for role in ("ROUTE", "READ", "WRITE")]
            return {"rt": {"ttl": 300, "db": "neo4j", "servers": servers}}
        if name == "BEGIN" or (name == "RUN" and self._state == "ready"):
            engine.begin(fields[-1].get("mode") == "r")
            self._in_transaction = True
        if name == "RUN":
            text, parameters = fields[0], fields[1]
            columns, self._rows = engine.run(text, parameters)
            self._ran.append((text, parameters))
            return {"fields": columns, "t_first": 0} | ({"qid": len(self._ran) - 1} if self._state == "tx" else {})
        if name in ("PULL", "DISCARD"):
            if fields[0]["n"] != -1 and fields[0]["n"] < len(self._rows):
                raise Failure("Neo.DatabaseError.General.UnknownError", "this answerer gives all rows or none")
            for row in self._rows if name == "PULL" else []:
                self._send(RECORD, row)
            if self._state == "streaming":
                self._end(True)
            return {"type": "rw", "t_last": 0, "db": "neo4j"} | self._server.summary
        if name in ("COMMIT", "ROLLBACK"):
            self._end(name == "COMMIT")
            return {"bookmark": "FB:test"} if name == "COMMIT" else {}
        return {}

    def _end(self, keep: bool) -> None:
        if self._in_transaction:
            self._in_transaction = False
            if keep:
                self._server.engine.commit()
                self._server.committed.append(self._ran)
            else:
                self._server.engine.rollback()
        self._ran, self._rows = [], []

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _read(self) -> tuple[str, list[Any]]:
        data = b""
        while True:
            (size,) = struct.unpack(">H", self._exactly(2))
            if size == 0 and data:
                break
            data += self._exactly(size)
        buffer = UnpackableBuffer(data)
        unpacker = Unpacker(buffer)
        count, tag = unpacker.unpack_structure_header()
        fields = [unpacker.unpack() for _ in range(count)]
        if buffer.p != len(data):
            raise ValueError("more in a message than its fields")
        return NAMES[tag[0]], fields

    def _send(self, tag: int, *fields: Any) -> None:
        buffer = PackableBuffer()
        Packer(buffer).pack_struct(bytes([tag]), fields)
        data = bytes(buffer.data)
        chunks = [data[at : at + 0xFFFF] for at in range(0, len(data), 0xFFFF)]
        self._socket.sendall(b"".join(struct.pack(">H", len(chunk)) + chunk for chunk in chunks) + b"\0\0")
