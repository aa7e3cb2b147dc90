from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tether.agent.calls import Fact
from tether.errors import DeadlineError, InvalidInputError
from tether.memory.redis_server import SERVER_VARIABLE, RedisServer, connect, find_server, require_durable
from tether.memory.working import Action, Change, WorkingMemory

WRITER = """
import sys
from tether.agent.calls import Fact
from tether.memory.redis_server import connect
from tether.memory.working import Action, Change, WorkingMemory

memory = WorkingMemory(connect(sys.argv[1]), "fetch-1", deadline_s=60.0)
for n in range(int(sys.argv[3])):
    facts = (Fact("step", float(n), n, sys.argv[2]), Fact("twin", float(n), n, sys.argv[2]))
    memory.write(Change(f"{sys.argv[2]}-{n}", n, sys.argv[2], facts, Action(f"c{n}", "pick", {"x_m": 0.1})))
    sys.stdout.write(f"{sys.argv[2]}-{n}\\n")
    sys.stdout.flush()
"""


def change(n: int, value: float = 0.0) -> Change:
    return Change(f"c{n}", n, "arm", (Fact("height_m", value, n, "camera"),))


def wait_dead(pid: int) -> None:
    until_s = time.monotonic() + 10.0
    while time.monotonic() < until_s and Path(f"/proc/{pid}/stat").exists():
        if Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z":
            return
        time.sleep(0.005)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel with a server is for x86-64 only")
def test_a_server_comes_with_the_locked_packages_so_that_no_test_is_left_out_for_want_of_one(monkeypatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    found = find_server()
    assert found is not None
    assert found.name == "valkey-server"


def test_changes_come_back_in_order_with_facts_and_actions(redis_server: RedisServer) -> None:
    memory = WorkingMemory(connect(redis_server.url), "fetch-1")
    action = Action("call-1", "pick", {"x_m": 0.25})
    holding = Fact("holding", "cube", 4, "gripper")
    assert memory.write(change(1, 0.1)) == 1
    assert memory.write(Change("c2", 5, "arm", (holding, Fact("height_m", 0.3, 5, "camera")), action)) == 2
    assert [c.sequence for c in memory.changes()] == [1, 2]
    assert memory.changes(after=1) == [Change("c2", 5, "arm", (holding, Fact("height_m", 0.3, 5, "camera")), action)]
    assert memory.facts() == {"holding": holding, "height_m": Fact("height_m", 0.3, 5, "camera")}


def test_a_change_that_is_sent_again_stands_there_once(redis_server: RedisServer) -> None:
    memory = WorkingMemory(connect(redis_server.url), "fetch-1")
    assert [memory.write(change(1)), memory.write(change(2)), memory.write(change(1))] == [1, 2, 1]
    assert len(memory.changes()) == 2


def test_a_change_without_an_id_is_refused(redis_server: RedisServer) -> None:
    memory = WorkingMemory(connect(redis_server.url), "fetch-1")
    with pytest.raises(InvalidInputError):
        memory.write(Change("", 0, "arm"))
    assert memory.changes() == []


def test_every_confirmed_change_survives_kills_of_writer_and_server(redis_server: RedisServer) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, redis_server.url, name, "150"], stdout=subprocess.PIPE, text=True
        )
        for name in ("arm", "base")
    ]
    confirmed: list[list[str]] = [[], []]

    def read(i: int) -> None:
        out = writers[i].stdout
        assert out is not None
        confirmed[i].extend(line.strip() for line in out)

    readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
    for reader in readers:
        reader.start()
    until_s = time.monotonic() + 30.0
    while min(map(len, confirmed)) < 30 and time.monotonic() < until_s:
        time.sleep(0.01)
    for _ in range(2):
        pid = redis_server.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_dead(pid)
        time.sleep(0.3)
    writers[0].kill()
    for writer, reader in zip(writers, readers, strict=True):
        writer.wait(60)
        reader.join(10)
    assert len(confirmed[1]) == 150
    assert redis_server.starts >= 2
    memory = WorkingMemory(connect(redis_server.url), "fetch-1")
    ids = [c.change_id for c in memory.changes()]
    assert set(confirmed[0]) | set(confirmed[1]) <= set(ids)
    assert len(ids) == len(set(ids))
    assert [c.sequence for c in memory.changes()] == list(range(1, len(ids) + 1))
    facts = memory.facts()
    assert facts["step"] == Fact("step", facts["twin"].value, facts["twin"].stamp_ns, facts["twin"].source)


def test_a_server_that_outlived_its_owner_is_adopted_with_what_it_knows(redis_server: RedisServer) -> None:
    WorkingMemory(connect(redis_server.url), "fetch-1").write(change(1))
    with RedisServer(redis_server.folder) as second:
        assert second.starts == 0
        assert second.pid == redis_server.pid
        assert len(WorkingMemory(connect(second.url), "fetch-1").changes()) == 1


def test_a_server_that_is_silent_is_waited_for_and_never_joined_by_a_second_over_its_files(
    redis_server: RedisServer,
) -> None:
    pid = redis_server.pid
    assert pid is not None
    WorkingMemory(connect(redis_server.url), "fetch-1").write(change(1))
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DeadlineError, match="the server that runs here"):
            RedisServer(redis_server.folder, deadline_s=0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    with RedisServer(redis_server.folder) as second:
        assert (second.starts, second.pid) == (0, pid)
        assert len(WorkingMemory(connect(second.url), "fetch-1").changes()) == 1


def test_another_agent_follows_the_changes(redis_server: RedisServer) -> None:
    writer, reader = (WorkingMemory(connect(redis_server.url), "fetch-1") for _ in range(2))
    following = reader.follow(silence_s=10.0)
    assert next(following) == []
    writer.write(change(1))
    writer.write(change(2))
    seen: list[Change] = []
    while len(seen) < 2:
        seen += next(following)
    assert [c.change_id for c in seen] == ["c1", "c2"]
    following.close()


def test_a_server_that_does_not_flush_is_refused_unless_that_is_accepted(redis_server: RedisServer) -> None:
    client = connect(redis_server.url)
    require_durable(client)
    client.config_set("appendfsync", "everysec")
    with pytest.raises(InvalidInputError, match="appendfsync always"):
        require_durable(client)
    require_durable(client, accept_weaker=True)
