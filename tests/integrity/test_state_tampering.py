"""Whoever changes the files of the critical state: it is noticed and named, and the newest good state is taken."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_making import database, history, reopened, triggers_of, with_triggers_again, without_triggers

from tether.errors import InvalidInputError
from tether.integrity.anchor import SLOT, read_anchor
from tether.integrity.critical import INITIAL
from tether.integrity.record import StateError
from tether.integrity.store import Store
from tether.signing.ecdsa import PrivateKey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def values(folder: Path) -> dict[str, bytes]:
    snapshot, _, _ = reopened(folder)
    return {name: value for name, value in snapshot.values.items() if name in INITIAL}


def newest_of(folder: Path, updates: int = 5) -> dict[str, bytes]:
    last = history(folder, updates)[-1]
    return {name: value for name, value in last.values.items() if name in INITIAL}


def test_untouched_state_is_what_was_written_and_nothing_is_found(folder: Path) -> None:
    states = history(folder)
    snapshot, found, unproven = reopened(folder)
    assert (snapshot, found, unproven) == (states[-1], [], "")


def rewrite(folder: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    """What a person with the file does: drop the triggers, change rows, put the triggers back."""
    triggers = triggers_of(database(folder))
    db = without_triggers(database(folder))
    change(db)
    with_triggers_again(db, triggers)


def _swap(db: sqlite3.Connection) -> None:
    db.execute("UPDATE record SET sequence = 100 WHERE sequence = 2")
    db.execute("UPDATE record SET sequence = 2 WHERE sequence = 3")
    db.execute("UPDATE record SET sequence = 3 WHERE sequence = 100")


def _replay(db: sqlite3.Connection) -> None:
    db.execute(
        "INSERT INTO record SELECT 6, stamp_ns, leaves, root, previous, signature FROM record WHERE sequence = 2"
    )


def _delete(where: str) -> Callable[[sqlite3.Connection], None]:
    def delete(db: sqlite3.Connection) -> None:
        db.execute(f"DELETE FROM record WHERE {where}")

    return delete


def _replay_over(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM record WHERE sequence = 5")
    db.execute(
        "INSERT INTO record SELECT 5, stamp_ns, leaves, root, previous, signature FROM record WHERE sequence = 1"
    )


ROW_CHANGES: dict[str, tuple[str, Callable[[sqlite3.Connection], None]]] = {
    "reordered": ("record_damaged", _swap),
    "an old record replayed as the newest": ("record_damaged", _replay),
    "an old record replayed in the newest one's place": ("record_damaged", _replay_over),
    "a gap": ("record_damaged", _delete("sequence = 3")),
    "the beginning cut off": (
        "record_damaged",
        _delete("sequence < 3"),
    ),
    "the end cut off": ("database_behind", _delete("sequence > 3")),
    "all rows gone": ("record_damaged", _delete("1")),
}


@pytest.mark.parametrize("what", ROW_CHANGES)
def test_changed_rows_are_noticed_and_the_newest_state_is_taken(folder: Path, what: str) -> None:
    newest = newest_of(folder)
    kind, change = ROW_CHANGES[what]
    rewrite(folder, change)
    snapshot, found, unproven = reopened(folder)
    assert found == [kind]
    assert {name: snapshot.values[name] for name in INITIAL} == newest
    assert unproven == ""
    assert reopened(folder)[1] == []
    assert list(folder.glob("damaged-*"))


@pytest.mark.parametrize("column", ["sequence", "stamp_ns", "leaves", "root", "previous", "signature"])
@pytest.mark.parametrize("sequence", [0, 3, 5])
def test_a_changed_column_of_any_record_is_noticed(folder: Path, column: str, sequence: int) -> None:
    newest = newest_of(folder)

    def change(db: sqlite3.Connection) -> None:
        (old,) = db.execute(f"SELECT {column} FROM record WHERE sequence = ?", (sequence,)).fetchone()
        new = old + 1000 if isinstance(old, int) else bytes([*old[:-1], old[-1] ^ 1])
        db.execute(f"UPDATE record SET {column} = ? WHERE sequence = ?", (new, sequence))

    rewrite(folder, change)
    snapshot, found, _ = reopened(folder)
    assert found
    assert {name: snapshot.values[name] for name in INITIAL} == newest


@pytest.mark.parametrize("value", ["'text'", "NULL || 'x'", "1.5", "x''"])
def test_a_column_of_another_type_is_noticed(folder: Path, value: str) -> None:
    newest = newest_of(folder)
    rewrite(folder, lambda db: db.execute(f"UPDATE OR IGNORE record SET leaves = {value} WHERE sequence = 4") and None)
    assert values(folder) == newest


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE record SET stamp_ns = 1",
        "DELETE FROM record WHERE sequence = 5",
        "INSERT OR REPLACE INTO record SELECT * FROM record WHERE sequence = 2",
        "REPLACE INTO record SELECT * FROM record WHERE sequence = 5",
        "INSERT INTO record SELECT 9, stamp_ns, leaves, root, previous, signature FROM record WHERE sequence = 2",
    ],
)
def test_triggers_refuse_everything_but_the_next_record(folder: Path, sql: str) -> None:
    history(folder)
    db = sqlite3.connect(database(folder))
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(sql)
    db.close()
    assert reopened(folder)[1] == []


@pytest.mark.parametrize("trigger", ["record_no_update", "record_no_delete", "record_in_order"])
def test_a_dropped_trigger_is_noticed_and_put_back(folder: Path, trigger: str) -> None:
    newest = newest_of(folder)
    db = sqlite3.connect(database(folder))
    db.execute(f"DROP TRIGGER {trigger}")
    db.close()
    snapshot, found, _ = reopened(folder)
    assert found == ["database_damaged"]
    assert {name: snapshot.values[name] for name in INITIAL} == newest
    assert len(triggers_of(database(folder))) == 3


def test_a_trigger_that_was_added_is_noticed(folder: Path) -> None:
    history(folder)
    db = sqlite3.connect(database(folder))
    db.execute("CREATE TRIGGER evil AFTER INSERT ON record BEGIN SELECT 1; END")
    db.close()
    assert reopened(folder)[1] == ["database_damaged"]


def older_database(folder: Path, tmp_path: Path) -> bytes:
    """The database of the same folder, three updates ago."""
    history(folder, 2)
    old = database(folder).read_bytes()
    with Store(folder, INITIAL, 5000) as store:
        for i in range(3):
            store.put({"held_object": f"cube {i}".encode()}, 6000 + i)
    return old


def test_an_older_database_swapped_in_is_noticed_and_the_newest_state_is_taken(folder: Path, tmp_path: Path) -> None:
    old = older_database(folder, tmp_path)
    database(folder).write_bytes(old)
    snapshot, found, unproven = reopened(folder)
    assert found == ["database_behind"]
    assert snapshot.values["held_object"] == b"cube 2"
    assert unproven == ""


def test_an_older_database_swapped_in_while_it_is_open_is_noticed_at_the_next_update(
    folder: Path, tmp_path: Path
) -> None:
    old = older_database(folder, tmp_path)
    with Store(folder, INITIAL, 7000) as store:
        store.put({"held_object": b"cube 3"}, 7001)
        other = tmp_path / "other.db"
        other.write_bytes(old)
        other.replace(database(folder))
        after = store.put({"mode": b"SAFE"}, 7002)
        assert "database_swapped" in [finding.wrong.value for finding in store.take_findings()]
        assert after.values["held_object"] == b"cube 3"
    snapshot, found, unproven = reopened(folder)
    assert (snapshot.values["held_object"], snapshot.values["mode"], found, unproven) == (b"cube 3", b"SAFE", [], "")


def test_another_process_writing_into_the_open_database_is_noticed(folder: Path) -> None:
    history(folder)
    with Store(folder, INITIAL, 7000) as store:
        db = sqlite3.connect(database(folder), isolation_level=None)
        db.execute("DROP TRIGGER record_no_delete")
        db.execute("DELETE FROM record WHERE sequence = 5")
        db.close()
        store.put({"mode": b"SAFE"}, 7002)
        assert store.take_findings()
        assert store.snapshot.values["active_skill"] == b"skill 4"
    assert values(folder)["mode"] == b"SAFE"


def test_database_and_anchor_of_another_machine_are_refused(folder: Path, tmp_path: Path) -> None:
    newest = newest_of(folder)
    history(tmp_path / "other")
    shutil.copy(database(tmp_path / "other"), database(folder))
    snapshot, found, _ = reopened(folder)
    assert found == ["record_damaged"]
    assert {name: snapshot.values[name] for name in INITIAL} == newest
    shutil.copy(tmp_path / "other" / "anchor", folder / "anchor")
    assert "anchor_damaged" in reopened(folder)[1]
    assert values(folder) == newest


def test_without_anchor_the_database_is_taken_but_not_believed_to_be_the_newest(folder: Path) -> None:
    newest = newest_of(folder)
    (folder / "anchor").unlink()
    snapshot, found, unproven = reopened(folder)
    assert found == ["anchor_missing"]
    assert {name: snapshot.values[name] for name in INITIAL} == newest
    assert "anchor_missing" in unproven
    assert "anchor_missing" in reopened(folder)[2], "opening again is no proof"
    with Store(folder, INITIAL, 9500) as store:
        with pytest.raises(InvalidInputError, match="says why"):
            store.acknowledge("  ", 9501)
        store.acknowledge("looked at the log, nothing moved", 9502)
    assert reopened(folder)[1:] == ([], "")


@pytest.mark.parametrize("lost", ["state-*.db", "anchor", "both"])
def test_what_is_left_decides(folder: Path, lost: str) -> None:
    newest = newest_of(folder)
    for pattern in ("state-*.db", "anchor") if lost == "both" else (lost,):
        for path in folder.glob(pattern):
            path.write_bytes(b"nothing of the kind" * 50)
    snapshot, found, unproven = reopened(folder)
    state = {name: snapshot.values[name] for name in INITIAL}
    assert found
    assert state == (INITIAL if lost == "both" else newest)
    assert (unproven == "") == (lost == "state-*.db")
    assert ("state_lost" in found) == (lost == "both")


def test_a_database_that_tells_another_history_is_not_believed(folder: Path, tmp_path: Path) -> None:
    history(folder, 2)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for place, held in ((folder, b"cube"), (copy, b"pen")):
        with Store(place, INITIAL, 5000) as store:
            store.put({"held_object": held}, 6000)
    shutil.copy(database(copy), database(folder))
    snapshot, found, unproven = reopened(folder)
    assert found == ["forked"]
    assert snapshot.values["held_object"] == b"cube"
    assert "forked" in unproven


def test_state_without_its_key_is_refused_and_left_alone(folder: Path) -> None:
    history(folder)
    (folder / "state.key").unlink()
    before = database(folder).read_bytes()
    with pytest.raises(InvalidInputError, match="signed with"):
        reopened(folder)
    assert database(folder).read_bytes() == before


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    history(folder)
    (folder / "state.key").chmod(0o644)
    with pytest.raises(InvalidInputError, match="600"):
        reopened(folder)


# Bit flips. The anchor holds the whole state, so whatever byte of the database changes, the newest state is there.


def flipped(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_a_flip_in_every_byte_of_every_record_is_noticed(folder: Path, tmp_path: Path) -> None:
    newest = newest_of(folder, 2)
    name, data = database(folder).name, database(folder).read_bytes()
    db = sqlite3.connect(database(folder))
    cells = [bytes(blob) for row in db.execute("SELECT leaves, root, previous, signature FROM record") for blob in row]
    db.close()
    for cell in {cell for cell in cells if cell.strip(b"\0")}:
        start = data.find(cell)
        assert start >= 0
        for at in range(start, start + len(cell), 5):
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            flipped(copy / name, at, at % 8)
            snapshot, found, _ = reopened(copy)
            assert found, f"byte {at}"
            assert {item: snapshot.values[item] for item in INITIAL} == newest
            shutil.rmtree(copy)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "state"
    history(folder, 3)
    return folder


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flip_anywhere_in_the_database_never_changes_the_state(
    template: Path, tmp_path: Path, where: float, bit: int
) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(template, copy)
    path = database(copy)
    flipped(path, int(where * path.stat().st_size), bit)
    snapshot, found, unproven = reopened(copy)
    assert snapshot.values["active_skill"] == b"skill 2"
    assert unproven == ""
    assert not found or snapshot.sequence > 3
    assert reopened(copy)[1] == []


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slot=st.integers(0, 1), at=st.integers(0, 900), bit=st.integers(0, 7))
def test_a_flip_anywhere_in_the_anchor_never_changes_the_state(
    template: Path, tmp_path: Path, slot: int, at: int, bit: int
) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(template, copy)
    flipped(copy / "anchor", slot * SLOT + at, bit)
    snapshot, _, _ = reopened(copy)
    assert snapshot.values["active_skill"] == b"skill 2"


def test_a_damaged_newest_slot_does_not_hide_a_database_put_back_by_one(folder: Path) -> None:
    history(folder, 4)
    old = database(folder).read_bytes()
    with Store(folder, INITIAL, 5000) as store:
        store.put({"held_object": b"cube"}, 6000)
    database(folder).write_bytes(old)
    flipped(folder / "anchor", SLOT * (5 % 2) + 40)
    _, found, unproven = reopened(folder)
    assert found == ["anchor_damaged"]
    assert unproven


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "dangling link"])
@pytest.mark.parametrize("name", ["database", "anchor"])
def test_something_else_in_a_files_place_is_neither_waited_for_nor_followed(
    folder: Path, tmp_path: Path, name: str, kind: str
) -> None:
    newest = newest_of(folder)
    path = database(folder) if name == "database" else folder / "anchor"
    path.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("elsewhere" if kind == "link" else "nowhere"))
    if (name, kind) == ("anchor", "folder"):
        with pytest.raises(StateError):
            reopened(folder)
        return
    snapshot, found, _ = reopened(folder)
    assert found or (name, kind) == ("anchor", "link")
    assert {item: snapshot.values[item] for item in INITIAL} == newest
    assert reopened(folder)[1] == []


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    history(folder)
    folder.chmod(0o777)
    with pytest.raises(InvalidInputError, match="chmod 700"):
        reopened(folder)
    folder.chmod(0o700)
    assert reopened(folder)[1] == []


@given(st.binary(max_size=400))
def test_any_bytes_in_an_anchor_are_refused_by_name(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "anchor"
        for content in (data, data.ljust(2 * SLOT, b"\0")[: 2 * SLOT]):
            path.write_bytes(content)
            with pytest.raises(ValueError, match="anchor"):
                read_anchor(path, KEY.public, tuple(INITIAL))


KEY = PrivateKey.generate()
