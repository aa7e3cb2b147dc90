"""Every way in which there is no Neo4j server: what is said of it, and that the memory works on without."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")
pytest.importorskip("neo4j", reason="needs the extra neo4j")

from bolt_server import BoltServer, Failure
from memory_making import PROVENANCE, opened, state

from tether.cli import main
from tether.errors import TetherError
from tether.memory import neo4j_store
from tether.memory.graph_store import GraphStoreError, open_store
from tether.memory.neo4j_store import Neo4jStore

Listen = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Serves each connection by a function; gives the URL."""
    sockets: list[socket.socket] = []

    def start(serve: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    sockets.append(connection)
                    serve(connection)
                except OSError:  # closed: the test is over
                    return

        threading.Thread(target=accept, daemon=True).start()
        return f"bolt://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for one in sockets:
        one.close()


def closes(connection: socket.socket) -> None:
    connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def speaks_noise(connection: socket.socket) -> None:
    connection.sendall(bytes(64))


def breaks_off(connection: socket.socket) -> None:
    """In the middle of a message, after the handshake."""
    connection.recv(20)
    connection.sendall(b"\0\0\4\4" + b"\0\xff\xb1")
    connection.recv(4096)
    connection.close()


def answers_null(connection: socket.socket) -> None:
    """Where Bolt has a map: SUCCESS null."""
    connection.recv(20)
    connection.sendall(b"\0\0\4\4")
    connection.recv(4096)
    connection.sendall(b"\0\3\xb1\x70\xc0\0\0")


def is_silent(connection: socket.socket) -> None:
    connection.recv(20)
    connection.sendall(b"\0\0\4\4")


def knows_nobody(name: str, fields: list[object]) -> None:
    if name == "LOGON":
        raise Failure("Neo.ClientError.Security.Unauthorized", "The client is unauthorized due to login")


def ask(url: str) -> None:
    store = Neo4jStore(url, "m")
    try:
        store.query("RETURN 1")
    finally:
        store.close()


# -- Servers that are none ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j_store, "_RETRY_S", 0.0)


def said_of(url: str) -> str:
    with pytest.raises(GraphStoreError, match="start the server, mend the URL, or set") as caught:
        ask(url)
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["bolt", "neo4j", "bolt+s"])
@pytest.mark.parametrize("serve", [closes, speaks_http, speaks_noise, breaks_off, answers_null])
def test_what_is_no_server_of_ours_is_named(
    listen: Listen, scheme: str, serve: Callable[[socket.socket], None]
) -> None:
    url = listen(serve).replace("bolt", scheme)
    assert f"{url}: found" in said_of(url)


def test_without_its_server_a_memory_works_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"bolt://127.0.0.1:{free.getsockname()[1]}"
    with opened(tmp_path, url) as memory:
        assert memory.offer("state", state(1_000, holding=True), PROVENANCE) == ()
        assert f"{url}: found ServiceUnavailable" in caplog.text and "the graph is behind" in caplog.text
        assert memory.semantic.believed("holding", {}) is True
        with pytest.raises(GraphStoreError, match="ServiceUnavailable"):
            memory.semantic.query("RETURN 1")
    with opened(tmp_path, None) as memory:
        assert memory.semantic.query("ASK { t:gripper t:holds t:red_cube }") == [{"": "true"}]


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_a_wrong_password_is_said_as_it_is_and_neither_repeated_nor_tried_again(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv(neo4j_store.USER, "neo4j")
    monkeypatch.setenv(neo4j_store.PASSWORD, "s3cret")
    with BoltServer(meddle=knows_nobody).serving() as server:
        said = said_of(server.url(scheme))
        assert "unauthorized due to login" in said and "s3cret" not in said
        logons = [fields[0] for name, fields in server.received if name == "LOGON"]
        assert [(one["principal"], one["credentials"]) for one in logons] == [("neo4j", "s3cret")]
        assert server.faults == [] and server.committed == []


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (b"\0\0\0\0", "does not support communication"),  # none of the versions that the driver offers
        (b"\0\0\0\1", "Bolt"),
    ],
)
def test_a_server_that_is_too_old_is_named(version: bytes, why: str) -> None:
    with BoltServer(version=version).serving() as server:
        assert why in said_of(server.url())
        assert server.received == []


def test_a_server_that_falls_silent_is_waited_for_up_to_the_deadline(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neo4j_store, "_DEADLINE_S", 1.0)
    begun_s = time.monotonic()
    assert "no answer within 1 s" in said_of(listen(is_silent))
    assert time.monotonic() - begun_s < 20.0


# -- What cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "scheme ''"),
        ("http://host", "scheme 'http'"),
        ("host:7687", "scheme 'host'"),
        ("bolt://", "no host"),
        ("bolt://host:99999", "no host or port that can be"),
        ("bolt://host:port", "no host or port that can be"),
        ("bolt://[::1", "no host or port that can be"),
        ("bolt://host/database", "more than host and port"),
        ("neo4j+s://neo4j:s3cret@host", "credentials in it"),
    ],
)
def test_a_url_that_is_none_is_refused_and_not_repeated(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(GraphStoreError, match="Neo4j") as caught:
        opened(tmp_path, url)
    assert why in str(caught.value) and "s3cret" not in str(caught.value)
    opened(tmp_path, None).close()  # the folder is free again


@pytest.mark.parametrize("name", [neo4j_store.USER, neo4j_store.PASSWORD])
def test_half_of_the_credentials_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "s3cret")
    with pytest.raises(GraphStoreError, match=f"only \\${name}") as caught:
        open_store("bolt://localhost", "m")
    assert "s3cret" not in str(caught.value)


def test_a_driver_that_is_missing_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(TetherError, match=r"pip install 'tether-robotics\[neo4j\]'"):
        open_store("bolt://localhost", "m")


def test_a_server_for_the_graph_of_no_memory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "run", "fetch", "--neo4j", "bolt://localhost"]) == 2
    assert "--memory with it" in capsys.readouterr().err
