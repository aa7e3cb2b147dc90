"""The SQLite file that holds the records: rows are added and never changed.

Triggers refuse updates, deletes and rows out of order. A trigger can be dropped by whoever can write the file, so the
schema is compared with what it should be, and every row is verified by signature and chain when the file is opened.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from tether.integrity.record import Record, Snapshot, followed, opened, record_from, row_from
from tether.signing.ecdsa import PublicKey

_TABLE = """CREATE TABLE record (
  sequence INTEGER PRIMARY KEY,
  stamp_ns INTEGER NOT NULL,
  leaves BLOB NOT NULL,
  root BLOB NOT NULL,
  previous BLOB NOT NULL,
  signature BLOB NOT NULL
)"""
_NO_UPDATE = """CREATE TRIGGER record_no_update BEFORE UPDATE ON record
BEGIN SELECT RAISE(ABORT, 'records are never changed'); END"""
_NO_DELETE = """CREATE TRIGGER record_no_delete BEFORE DELETE ON record
BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END"""
_IN_ORDER = """CREATE TRIGGER record_in_order BEFORE INSERT ON record
WHEN NEW.sequence <> (SELECT max(sequence) + 1 FROM record)
BEGIN SELECT RAISE(ABORT, 'records are only added, one after the other'); END"""
_SCHEMA = (
    ("table", "record", _TABLE),
    ("trigger", "record_in_order", _IN_ORDER),
    ("trigger", "record_no_delete", _NO_DELETE),
    ("trigger", "record_no_update", _NO_UPDATE),
)
_COLUMNS = "sequence, stamp_ns, leaves, root, previous, signature"
_BUSY_MS = 2000
_SYNCHRONOUS = "FULL"
"""A committed record survives a power cut."""
FAULTS = (sqlite3.Error, ValueError, OSError)
"""What a damaged file raises; ValueError where SQLite quotes bytes of it that are no text."""


class Database:
    """One open file. Every method may raise one of FAULTS. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._db.execute("PRAGMA trusted_schema = OFF")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS}")
            stat = os.stat(path)
        except BaseException:
            self._db.close()
            raise
        self._identity = (stat.st_dev, stat.st_ino)
        self._version = self._data_version()

    @staticmethod
    def create(path: Path, first: Record) -> Database:
        """A new file that begins with `first`; what stood there goes."""
        for name in (path, *companions(path)):
            name.unlink(missing_ok=True)
        database = Database(path)
        try:
            database._db.execute("BEGIN IMMEDIATE")
            for _, _, sql in _SCHEMA:
                database._db.execute(sql)
            database._insert(first)
            database._db.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        database._version = database._data_version()
        return database

    def schema_fault(self) -> str | None:
        """What is wrong with tables and triggers, None where they are as they should be."""
        found = set(self._db.execute("SELECT type, name, sql FROM sqlite_master"))
        lacking = [f"{kind} {name}" for kind, name, sql in _SCHEMA if (kind, name, sql) not in found]
        extra = [f"{kind} {name}" for kind, name, sql in found if (kind, name, sql) not in set(_SCHEMA)]
        if not lacking and not extra:
            return None
        return "; ".join(
            f"{what} {', '.join(sorted(map(str, names)))}"
            for what, names in (("lacking or altered:", lacking), ("not ours:", extra))
            if names
        )

    def walk(self, key: PublicKey, names: Sequence[str]) -> tuple[list[tuple[int, bytes]], Snapshot | None, str | None]:
        """Verify every record: (sequence, head) of the good ones, the state after them, and why it ends there (None:
        they are all good)."""
        heads: list[tuple[int, bytes]] = []
        snapshot: Snapshot | None = None
        try:
            for row in self._db.execute(f"SELECT {_COLUMNS} FROM record ORDER BY sequence"):
                record = record_from(row)
                snapshot = opened(record, key, names) if snapshot is None else followed(snapshot, record, key)
                heads.append((snapshot.sequence, snapshot.head))
        except FAULTS as error:
            return heads, snapshot, str(error)
        if snapshot is None:
            return heads, None, "no record in it"
        return heads, snapshot, None

    def add(self, record: Record) -> None:
        """Add one record; on return it is on the disk and was read back."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._insert(record)
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # the fault that matters is the one on its way
                self._db.execute("ROLLBACK")
            raise
        self._version = self._data_version()
        if self.last() != record:
            raise sqlite3.DatabaseError(f"record {record.sequence} does not read back as it was written")

    def last(self) -> Record | None:
        """The newest record as it stands there, unverified."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM record ORDER BY sequence DESC LIMIT 1").fetchone()
        try:
            return None if row is None else record_from(row)
        except ValueError as error:
            raise sqlite3.DatabaseError(str(error)) from None

    def is_same_file(self) -> bool:
        """Whether the path still leads to the file that is open."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._identity

    def changed_by_others(self) -> bool:
        """Whether another connection has written since this one last did."""
        return self._data_version() != self._version

    def close(self) -> None:
        """Close; what is in the write-ahead log goes into the file."""
        self._db.close()

    def _insert(self, record: Record) -> None:
        self._db.execute(f"INSERT INTO record ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row_from(record))

    def _data_version(self) -> int:
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])


def companions(path: Path) -> tuple[Path, Path]:
    """Names of the write-ahead log and its index beside a database."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
