"""A state folder with a history, and hands on its files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tether.integrity.critical import INITIAL
from tether.integrity.record import Snapshot
from tether.integrity.store import Store

MODES = (b"ARMED", b"ACTIVE", b"SLOW", b"SAFE", b"STOP")


def history(folder: Path, updates: int = 5) -> list[Snapshot]:
    """A store with that many updates, closed; the states it went through, the last of them the newest."""
    states = []
    with Store(folder, INITIAL, 1000) as store:
        for i in range(updates):
            values = {"mode": MODES[i % 5], "active_skill": f"skill {i}".encode()}
            states.append(store.put(values, 2000 + i))
    return states


def reopened(folder: Path) -> tuple[Snapshot, list[str], str]:
    """State, kinds of findings, and why it is unproven, of the store that opens there now."""
    with Store(folder, INITIAL, 9000) as store:
        return store.snapshot, [finding.wrong.value for finding in store.take_findings()], store.unproven


def database(folder: Path) -> Path:
    """The one database file in use."""
    (path,) = folder.glob("state-*.db")
    return path


def without_triggers(path: Path) -> sqlite3.Connection:
    """A connection of somebody who has dropped the triggers."""
    db = sqlite3.connect(path, isolation_level=None)
    for name in ("record_no_update", "record_no_delete", "record_in_order"):
        db.execute(f"DROP TRIGGER {name}")
    return db


def with_triggers_again(db: sqlite3.Connection, triggers: list[str]) -> None:
    """Put the triggers back, so that only the rows tell."""
    for sql in triggers:
        db.execute(sql)
    db.close()


def triggers_of(path: Path) -> list[str]:
    """SQL of the triggers."""
    db = sqlite3.connect(path)
    found = [row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
    db.close()
    return found
