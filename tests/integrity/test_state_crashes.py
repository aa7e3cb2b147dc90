"""Kills, full disks and busy disks: what was acknowledged is there, and nothing false is found."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from state_making import database, history, reopened

from tether.errors import DeadlineError, InvalidInputError
from tether.integrity import store as store_module
from tether.integrity.critical import INITIAL
from tether.integrity.keeper import QUEUE_MAX, Keeper
from tether.integrity.record import Snapshot, StateError
from tether.integrity.store import Store

WRITER = """
import sys
from pathlib import Path
from tether.integrity.store import Store
from tether.integrity.critical import INITIAL
with Store(Path(sys.argv[1]), INITIAL, 1) as store:
    print("open", flush=True)
    i = int(store.snapshot.values["active_skill"] or b"0")
    while True:
        i += 1
        store.put({"active_skill": str(i).encode()}, i)
        print(i, flush=True)
"""

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from tether.integrity.store import Store
from tether.integrity.record import StateError
from tether.integrity.critical import INITIAL
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
with Store(folder, INITIAL, 1) as store:
    store.put({"mode": b"ACTIVE"}, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    refused = 0
    for i in range(60):
        before = store.snapshot
        try:
            store.put({"active_skill": b"x" * 900 + str(i).encode()}, 3 + i)
        except StateError as error:
            refused += 1
            assert store.snapshot == before, "a refused update leaves the state as it was"
            assert "the state is what it was" in str(error)
    assert refused, "the limit was never met"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.put({"held_object": b"cube"}, 100)
    print(store.snapshot.sequence, [str(f) for f in store.take_findings()])
"""


def test_kill_9_during_updates_loses_nothing_that_was_acknowledged_and_finds_nothing(tmp_path: Path) -> None:
    folder, chance = tmp_path / "state", random.Random(5)
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        acknowledged = 0
        for _ in range(chance.randrange(1, 12)):
            acknowledged = int(child.stdout.readline())
        time.sleep(chance.random() * 0.005)
        os.kill(child.pid, signal.SIGKILL)
        rest = child.stdout.read().split()
        child.wait()
        acknowledged = int(rest[-1]) if rest else acknowledged
        snapshot, found, unproven = reopened(folder)
        assert int(snapshot.values["active_skill"]) in (acknowledged, acknowledged + 1)
        assert (found, unproven) == ([], "")


def test_a_kill_between_database_and_anchor_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    history(folder)
    with Store(folder, INITIAL, 7000) as store:
        monkeypatch.setattr(store._anchor, "write", lambda *_: None)
        store.put({"mode": b"SAFE"}, 7001)
    snapshot, found, unproven = reopened(folder)
    assert (snapshot.values["mode"], found, unproven) == (b"SAFE", [], "")


def test_an_anchor_that_stayed_behind_is_named_and_the_database_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    history(folder)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Store(folder, INITIAL, 7000) as store:
        monkeypatch.setattr(store._anchor, "write", fails)
        for i in range(3):
            store.put({"held_object": str(i).encode()}, 7001 + i)
        assert {finding.wrong.value for finding in store.take_findings()} == {"anchor_behind"}
    snapshot, found, unproven = reopened(folder)
    assert (snapshot.values["held_object"], found, unproven) == (b"2", ["anchor_behind"], "")


@pytest.mark.parametrize("point", ["key", "database", "anchor"])
def test_a_first_start_that_was_interrupted_is_begun_again(tmp_path: Path, point: str) -> None:
    folder = tmp_path / "state"
    history(folder, 1)
    (folder / "state.key").rename(folder / "state.key.new")
    if point != "anchor":
        (folder / "anchor").unlink()
    if point == "key":
        database(folder).unlink()
    snapshot, found, unproven = reopened(folder)
    assert ({name: snapshot.values[name] for name in INITIAL}, found, unproven) == (INITIAL, [], "")


@pytest.mark.parametrize("limit", [131072, 140000, 150000])
def test_a_full_disk_refuses_updates_and_leaves_the_state_and_room_lets_it_go_on(tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "state"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder), str(limit)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    sequence, _, findings = done.stdout.partition(" ")
    assert findings.strip() == "[]"
    snapshot, found, unproven = reopened(folder)
    assert (snapshot.sequence, snapshot.values["held_object"], found, unproven) == (int(sequence), b"cube", [], "")


def test_a_second_process_waits_and_is_then_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LOCK_WAIT_S", 0.05)
    with Store(tmp_path / "state", INITIAL, 1), pytest.raises(DeadlineError, match="another process"):
        Store(tmp_path / "state", INITIAL, 1)


def test_a_long_database_is_begun_anew_with_its_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RECORDS_MAX", 3)
    folder = tmp_path / "state"
    last = history(folder, 5)[-1]
    names = set()
    for i in range(4):
        snapshot, found, unproven = reopened(folder)
        assert (snapshot.values, found, unproven) == (last.values, [], "")
        with Store(folder, INITIAL, 8000) as store:
            for k in range(3):
                last = store.put({"held_object": f"{i} {k}".encode()}, 8001)
        names |= {path.name for path in folder.glob("state-*.db")}
    assert len(names) > 2
    assert len(list(folder.glob("state-*.db"))) <= 2


def test_refused_values_change_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "state", INITIAL, 1) as store:
        before = store.snapshot
        for changes in ({"unknown": b""}, {"mode": "text"}, {"mode": b"x" * 70_000}, {"unproven": b""}):
            with pytest.raises(InvalidInputError):
                store.put(changes, 2)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="all values"):
            store.put({name: b"x" * 30_000 for name in INITIAL}, 2)
        assert store.snapshot == before
        assert store.put({"mode": INITIAL["mode"]}, 3) == before, "a value that is as it was makes no record"


def test_leaves_damaged_in_memory_are_read_back_from_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    last = history(folder)[-1]
    with Store(folder, INITIAL, 7000) as store:
        good = store.snapshot
        bad = Snapshot(good.sequence, good.stamp_ns, good.leaves[:1] + good.leaves[2:], good.root, good.head)
        assert good.intact() and not bad.intact()
        store._snapshot = bad
        store.put({"held_object": b"cube"}, 7001)
        assert [finding.wrong.value for finding in store.take_findings()] == ["memory_damaged"]
        assert store.snapshot.values["active_skill"] == last.values["active_skill"]


def test_verify_on_demand_reads_the_whole_database(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    history(folder)
    with Store(folder, INITIAL, 7000) as store:
        assert store.verify(7001)
        data = bytearray(database(folder).read_bytes())
        at = data.find(b"skill 1")
        data[at] ^= 1
        database(folder).write_bytes(data)
        assert not store.verify(7002)
        assert store.snapshot.values["active_skill"] == b"skill 4"
        assert store.verify(7003)


# The keeper


def test_submitting_never_waits_for_the_disk_and_close_writes_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(tmp_path / "state", INITIAL, 1)
    put, slow = keeper._store.put, 0.02

    def slow_put(changes: dict[str, bytes], stamp_ns: int) -> Snapshot:
        time.sleep(slow)
        return put(changes, stamp_ns)

    monkeypatch.setattr(keeper._store, "put", slow_put)
    for i in range(3 * QUEUE_MAX):
        keeper.submit({"active_skill": str(i).encode()}, i)
        assert len(keeper._queue) <= QUEUE_MAX
    assert keeper.merged > 0, "more came in than the slow disk took"
    slow = 0.0
    keeper.close()
    assert reopened(tmp_path / "state")[0].values["active_skill"] == str(3 * QUEUE_MAX - 1).encode()


def test_an_update_that_the_disk_refuses_is_tried_again_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.integrity.keeper.RETRY_S", 0.01)
    with Keeper(tmp_path / "state", INITIAL, 1) as keeper:
        put, failures = keeper._store.put, iter(range(5))

        def failing(changes: dict[str, bytes], stamp_ns: int) -> Snapshot:
            if next(failures, None) is not None:
                raise StateError("the disk is full")
            return put(changes, stamp_ns)

        monkeypatch.setattr(keeper._store, "put", failing)
        keeper.submit({"mode": b"ACTIVE"}, 2)
        keeper.settle(20.0)
        assert [finding.wrong.value for finding in keeper.take_findings()] == ["not_stored"]
        assert keeper.fault is None
        assert keeper.snapshot.values["mode"] == b"ACTIVE"


def test_an_update_that_can_never_be_stored_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with Keeper(tmp_path / "state", INITIAL, 1) as keeper:
        keeper.submit({name: b"x" * 30_000 for name in INITIAL}, 2)
        keeper.submit({"mode": b"SAFE"}, 3)
        keeper.settle(20.0)
        assert [finding.wrong.value for finding in keeper.take_findings()] == ["not_stored"]
        assert keeper.snapshot.values["mode"] == b"SAFE"


def test_a_keeper_says_why_state_is_not_to_be_relied_on_until_a_person_takes_it(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    history(folder)
    (folder / "anchor").unlink()
    with Keeper(folder, INITIAL, 1) as keeper:
        assert [finding.wrong.value for finding in keeper.take_findings()] == ["anchor_missing"]
        assert keeper.fault is not None and "anchor_missing" in keeper.fault
        with pytest.raises(InvalidInputError):
            keeper.acknowledge("")
        keeper.acknowledge("checked by hand")
        keeper.settle(20.0)
        assert keeper.fault is None
