"""A memory asked over a socket: the same as without, whole runs or none, one agent at a time."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")

from memory_making import KEY, KEYS

from tether.agent.calls import Fact, Status
from tether.agent.domain import Domain, load_domain
from tether.agent.experience import Recalled
from tether.agent.graph import Edge, Node, RunGraph
from tether.errors import InvalidInputError
from tether.memory.ledger import Ledger
from tether.memory.link import MemoryLinkError, MemoryServer, RemoteMemory
from tether.memory.long_term import LongTermMemory

STEPS = ("find", "approach", "pick", "carry", "place")
WAYS = dict.fromkeys(STEPS, "direct")
DOMAIN = load_domain()


def opened(folder: Path, wall_ns: Iterator[int] | None = None) -> LongTermMemory:
    stamps = wall_ns or itertools.count(1_700_000_000)
    ledger = Ledger(folder / "memory", KEY, KEYS, folder / "state")
    return LongTermMemory(folder, DOMAIN, commit="c0ffee", wall_ns=lambda: next(stamps), ledger=ledger)


def run(domain: Domain, number: int, status: Status = Status.DONE) -> RunGraph:
    """A run of fetch in which every skill has its effect, or that a person ended at its last step."""
    known = domain.closure(domain.tasks["fetch"].begins)
    graph = RunGraph("fetch", f"fetch-{number}", {"x": 0.215, "y": -0.085}, outcome=status.value)
    graph.nodes.append(node(0, known))
    for at, name in enumerate(STEPS, 1):
        skill = domain.skills[name]
        known = domain.after(known, skill.achieves)
        graph.nodes.append(node(at, known))
        graph.edges.append(Edge(at - 1, at, f"{at}", name, "direct", {}, 1, "task", skill.effect, "done", None))
    return graph


def node(number: int, known: Any) -> Node:
    stamp_ns = (number + 1) * 1_000_000_000
    return Node(
        number, stamp_ns, tuple(Fact(n, v, stamp_ns, "joints") for n, v in known.items()), {"sigma_m": 0.1 + 0.2}
    )


def bodies(folder: Path) -> list[tuple[str, Any, Any]]:
    with opened(folder) as memory:
        return [(entry.kind, entry.body, entry.provenance) for entry in memory.ledger.entries]


def test_what_is_asked_and_learnt_over_the_socket_is_what_it_is_without_one(tmp_path: Path) -> None:
    task = DOMAIN.tasks["fetch"]
    state = DOMAIN.closure(task.begins)
    begun: list[list[Recalled | None]] = []
    for name in ("near", "far"):
        with opened(tmp_path / name) as memory, MemoryServer(memory, DOMAIN, tmp_path / f"{name}.sock") as server:
            asked = memory if name == "near" else RemoteMemory(server.path)
            begun.append([])
            for number in range(3):
                begun[-1].append(asked.recall(task, state, {"x": 0.215, "y": -0.085}, WAYS))
                assert asked.learn(run(DOMAIN, number), begun[-1][-1]) == ()
    assert begun[0] == begun[1] and [one is None for one in begun[0]] == [True, False, False]
    assert bodies(tmp_path / "near") == bodies(tmp_path / "far") != []


def test_why_something_was_not_kept_and_what_went_wrong_come_back_by_name(tmp_path: Path) -> None:
    with opened(tmp_path) as memory, MemoryServer(memory, DOMAIN, tmp_path / "sock") as server:
        remote = RemoteMemory(server.path)
        wrong = run(DOMAIN, 1)
        wrong.nodes[1] = Node(1, 1, wrong.nodes[1].facts, {})
        assert any("later than its state" in why or "older than" in why for why in remote.learn(wrong, None))
        with pytest.raises(MemoryLinkError, match="KeyError: 'jump'"):
            remote._ask("recall", task="jump", state={}, parameters={}, ways={})
        assert remote.learn(run(DOMAIN, 2), None) == (), "and it goes on"
    with pytest.raises(MemoryLinkError, match=r"is gone|Broken pipe"):
        remote.learn(run(DOMAIN, 3), None)
    with pytest.raises(MemoryLinkError, match="No such file"):
        RemoteMemory(tmp_path / "none")


def test_a_second_agent_is_refused_by_name_until_the_first_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as memory, MemoryServer(memory, DOMAIN, tmp_path / "sock") as server:
        first = RemoteMemory(server.path)
        with pytest.raises(MemoryLinkError, match="in use by another agent"):
            RemoteMemory(server.path)
        first.close()
        second = connected(server.path)
        assert second.learn(run(DOMAIN, 1), None) == ()
        with pytest.raises(InvalidInputError, match="in use by another process"):
            opened(tmp_path)


AGENT = """
import json, socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
assert json.loads(sock.recv(1000)) == {"answer": None}
message = sys.stdin.buffer.read()
sock.sendall(message)
print("sent", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("share", [0.3, 0.999, 1.0])
def test_an_agent_that_is_killed_leaves_a_run_learnt_whole_once_or_not_at_all(tmp_path: Path, share: float) -> None:
    asked = {"ask": "learn", "graph": run(DOMAIN, 2).record(), "recalled": None}
    message = json.dumps(asked).encode() + b"\n"
    message = message[: int(len(message) * share)]
    with opened(tmp_path) as memory, MemoryServer(memory, DOMAIN, tmp_path / "sock") as server:
        first = RemoteMemory(server.path)
        first.learn(run(DOMAIN, 1), None)
        kept = len(memory.ledger.entries)
        first.close()
        agent = killed_after(server.path, message)
        assert agent == -signal.SIGKILL
        connected(server.path).close()  # the next one is answered, and by then nothing is left to do
    whole = kept - 1  # the chain is known
    assert len(bodies(tmp_path)) == kept + (whole if share == 1.0 else 0)
    runs = [body["run"] for kind, body, _ in bodies(tmp_path) if kind == "state"]
    assert [runs.count(name) for name in dict.fromkeys(runs)] == [6, 6] if share == 1.0 else [6]


def killed_after(path: Path, message: bytes) -> int:
    """Exit status of an agent that was killed with signal 9 as soon as it had sent the message."""
    command = [sys.executable, "-c", AGENT, str(path)]
    until_s = time.monotonic() + 30.0
    while time.monotonic() < until_s:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.write(message)
        agent.stdin.close()
        said = agent.stdout.readline()
        os.kill(agent.pid, signal.SIGKILL) if said else None
        agent.stdout.close()
        status = agent.wait()
        if said:
            return status
    raise AssertionError("never answered")


def connected(path: Path) -> RemoteMemory:
    """As soon as the one before is known to be gone."""
    until_s = time.monotonic() + 30.0
    while True:
        try:
            return RemoteMemory(path)
        except MemoryLinkError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)


def test_a_message_without_an_end_is_not_waited_for_and_a_path_that_no_socket_can_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.memory.link.MESSAGE_MAX", 1000)
    with opened(tmp_path) as memory, MemoryServer(memory, DOMAIN, tmp_path / "sock") as server:
        with socket.socket(socket.AF_UNIX) as endless:
            endless.connect(str(server.path))
            endless.sendall(b"x" * 5000)
            assert endless.recv(1000) == b'{"answer": null}\n'
            assert endless.recv(1000) == b"", "the connection was closed"
        assert connected(server.path).learn(run(DOMAIN, 1), None) == ()
        with pytest.raises(InvalidInputError, match="socket"):
            MemoryServer(memory, DOMAIN, tmp_path / ("long" * 40))
