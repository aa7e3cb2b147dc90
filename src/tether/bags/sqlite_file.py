"""rosbag2 SQLite files of every schema version, sound or damaged.

Rows are read in blocks along the primary key, so that a page that is gone costs the rows on it and not the
rest. Schema versions: 1 (2019), 2 (QoS), 3 (schema table), 4 (message definitions).
"""

from __future__ import annotations

import contextlib
import sqlite3
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rosbags.typesys.msg import normalize_msgtype

from tether.bags.damage import DAMAGE, short_reason
from tether.bags.model import Block, Definition, DefinitionFormat, Encoding, RawRecord, StorageFile, TopicInfo
from tether.bags.qos import qos_from_text
from tether.bags.report import Loss, LossKind, LossLog
from tether.errors import Fault, InvalidInputError

BLOCK_ROWS = 512
BLOCK_BYTES = 4 * 2**20
_FORMATS = {"ros2msg": DefinitionFormat.MSG, "ros2idl": DefinitionFormat.IDL}
_NEAR = 4096
"""How many rows behind a damaged one are tried one by one before looking further away."""
_FAR = 2**40
_FIRST_ID, _NO_ROW = -(2**63), 2**63
"""The least number that a row can have, and one that none can have: the table ends before it."""


def open_sqlite(path: Path, name: str, log: LossLog) -> StorageFile:
    """Open one database. Raises InvalidInputError where its tables cannot be found at all."""
    connection = _connect(path, name, log)
    try:
        topics, index_of = _topics(connection, name, log)
        return _Rows(connection, path, name, index_of, log).storage(topics)
    except DAMAGE as error:
        connection.close()
        fault = Fault(name, short_reason(error), "a rosbag2 database with tables `topics` and `messages`")
        raise InvalidInputError("SQLite bag", [fault], "nothing in this file can be read") from error
    except InvalidInputError:
        connection.close()
        raise


def _connect(path: Path, name: str, log: LossLog) -> sqlite3.Connection:
    """Read-only. A write-ahead log beside the file holds its newest rows, so it is read too where that is
    possible; `immutable` (which ignores it) is for files on media where SQLite cannot make its shared-memory
    file."""
    uri = path.absolute().as_uri()
    wal = path.with_name(path.name + "-wal")
    if wal.is_file() and wal.stat().st_size:
        try:
            connection = sqlite3.connect(f"{uri}?mode=ro", uri=True)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            what = f"not readable here ({short_reason(error)}); copy the bag to a writable folder"
            log.add(Loss(LossKind.DAMAGED, wal.name, what, None, wal.stat().st_size))
        else:
            log.note(f"{name}: not closed properly; its newest rows were read from {wal.name}")
            return _lenient(connection)
    return _lenient(sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True))


def _lenient(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Text that is no UTF-8 must not make the rest of its row unreadable."""
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    # Without this SQLite refuses a file shorter than its header says; with it, what is there can be read
    # (as `sqlite3 .recover` does). The connection is read-only, so nothing is written, whatever its name.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _stored(connection: sqlite3.Connection) -> set[str]:
    """Tables that have pages of their own, in lower case. Views and virtual tables compute their rows, maybe no end
    of them."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    return {str(table).lower() for (table,) in connection.execute(query)}


def _topics(connection: sqlite3.Connection, name: str, log: LossLog) -> tuple[list[TopicInfo], dict[int, int]]:
    columns = _columns(connection, "topics")
    missing = {"id", "name", "type"} - columns or {"topic_id", "timestamp", "data"} - _columns(connection, "messages")
    computed = {"topics", "messages"} - _stored(connection)
    if missing or computed:
        lacking = f"no column {', '.join(sorted(missing))}"
        found = lacking if missing else f"a view that computes its rows, no table: {', '.join(sorted(computed))}"
        raise InvalidInputError(
            "SQLite bag",
            [Fault(name, found, "a rosbag2 database with tables `topics` and `messages`")],
            "this is some other database; name the folder or file of a bag",
        )
    definitions = _definitions(connection, name, log)
    fields = [c for c in ("serialization_format", "offered_qos_profiles") if c in columns]
    topics: list[TopicInfo] = []
    index_of: dict[int, int] = {}
    for row in _topic_rows(connection, f"SELECT {', '.join(['id', 'name', 'type', *fields])} FROM topics", name, log):
        nameless = [field for field, value in (("name", row[1]), ("type", row[2])) if not isinstance(value, str)]
        if nameless:  # its messages are found to be of a topic that is not declared
            log.note(f"{name}: topic {row[0]} has no {' and no '.join(nameless)}; its messages are left out")
            continue
        extra = dict(zip(fields, row[3:], strict=True))
        wire = str(extra.get("serialization_format", "cdr"))
        index_of[row[0]] = len(topics)
        topics.append(
            TopicInfo(
                name=str(row[1]),
                type=normalize_msgtype(str(row[2])),
                encoding=Encoding.CDR if wire == "cdr" else Encoding.OTHER,
                definition=definitions.get(str(row[2]), Definition()),
                qos=qos_from_text(str(extra.get("offered_qos_profiles", ""))),
                encoding_name=wire,
            )
        )
    return topics, index_of


def _topic_rows(connection: sqlite3.Connection, select: str, name: str, log: LossLog) -> list[tuple[Any, ...]]:
    """Every readable row of the topics table: at once, or one by one along the primary key where it is damaged."""
    try:
        return connection.execute(f"{select} ORDER BY id").fetchall()
    except sqlite3.Error as error:
        rows: list[tuple[Any, ...]] = []
        for topic_id in range(_NEAR):
            with contextlib.suppress(sqlite3.Error):
                rows += connection.execute(f"{select} WHERE id = ?", (topic_id,)).fetchmany(1)
        what = f"{short_reason(error)}; {len(rows)} topics can be read"
        log.add(Loss(LossKind.DAMAGED, f"{name}: table `topics`", what))
        return rows


def _definitions(connection: sqlite3.Connection, name: str, log: LossLog) -> dict[str, Definition]:
    if "encoded_message_definition" not in _columns(connection, "message_definitions"):
        return {}
    if "message_definitions" not in _stored(connection):
        log.note(f"{name}: message_definitions is a view and no table; the store's definitions are used")
        return {}
    query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
    try:
        rows = connection.execute(query).fetchall()
    except sqlite3.Error as error:
        log.note(f"{name}: message definitions are unreadable ({short_reason(error)}); the store's are used")
        return {}
    return {
        str(type_): Definition(_FORMATS.get(str(encoding), DefinitionFormat.NONE), str(text))
        for type_, encoding, text in rows
        if encoding in _FORMATS
    }


class _Rows:
    """The rows of the messages table, found along the primary key with damaged stretches left out."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, name: str, index_of: dict[int, int], log: LossLog
    ) -> None:
        self._connection = connection
        self._path = path
        self._name = name
        self._index_of = index_of
        self._log = log
        self._blocks: list[Block] = []
        self._counts: dict[int, int] = dict.fromkeys(index_of.values(), 0)
        self._end_ns: int | None = None
        self._orphans = self._timeless = 0
        self._broken: list[str] = []

    def storage(self, topics: list[TopicInfo]) -> StorageFile:
        """Find every readable row, without reading the messages themselves."""
        start = _FIRST_ID
        while True:
            try:
                self._walk(start)
                break
            except sqlite3.Error as error:
                # Past the last row seen, and past the place from which this walk began if it saw none; rosbag2 counts
                # from 1.
                base = self._last if self._last >= start else max(start, 0)
                resumed = self._next_readable(base)
                upto = "the end" if resumed is None else f"row {resumed}"
                self._broken.append(f"after row {base} up to {upto}: {short_reason(error)}")
                if resumed is None:
                    break
                start = resumed
        self._report()
        return StorageFile(topics, self._blocks, self._connection.close, dict(self._counts), self._end_ns)

    def _walk(self, start: int) -> None:
        """Index the rows from id `start` on; `self._last` is the last row seen, also when this raises."""
        self._last = start - 1
        ids, low, size = array("q"), 2**63, 0
        query = "SELECT id, topic_id, timestamp, length(data) FROM messages WHERE id >= ? ORDER BY id"
        try:
            for row_id, topic_id, time, length in self._connection.execute(query, (start,)):
                if row_id <= self._last:  # damaged pages can point back at each other
                    raise sqlite3.DatabaseError(f"row {row_id} is listed after row {self._last}")
                self._last = row_id
                topic = self._index_of.get(topic_id)
                if topic is None:
                    self._orphans += 1
                    continue
                if not isinstance(time, int):
                    self._timeless += 1
                    continue
                self._counts[topic] += 1
                self._end_ns = time if self._end_ns is None else max(self._end_ns, time)
                ids.append(row_id)
                low, size = min(low, time), size + (length or 0)
                if len(ids) >= BLOCK_ROWS or size >= BLOCK_BYTES:
                    self._blocks.append(Block(low, self._loader(ids)))
                    ids, low, size = array("q"), 2**63, 0
        finally:
            if ids:
                self._blocks.append(Block(low, self._loader(ids)))

    def _next_readable(self, base: int) -> int | None:
        """The first row id past the damage behind `base`: one by one nearby, then in doubling strides."""
        for candidate in range(base + 1, base + _NEAR):
            if (found := self._probe(candidate)) is not None:
                return None if found == _NO_ROW else found
        stride = _NEAR
        while stride < _FAR:
            if (found := self._probe(base + stride)) is not None:
                return None if found == _NO_ROW else self._earliest(base + stride // 2, base + stride)
            stride *= 2
        return None

    def _earliest(self, bad: int, good: int) -> int | None:
        while good - bad > 1:
            middle = (bad + good) // 2
            if self._probe(middle) is None:
                bad = middle
            else:
                good = middle
        found = self._probe(good)
        return None if found == _NO_ROW else found

    def _probe(self, row_id: int) -> int | None:
        """Id of the first row at or behind `row_id`; `_NO_ROW` if there is none; None if that place is unreadable."""
        query = "SELECT id, topic_id, timestamp, length(data) FROM messages WHERE id >= ? ORDER BY id LIMIT 1"
        try:
            row = self._connection.execute(query, (row_id,)).fetchone()
        except sqlite3.Error:
            return None
        if row is None:
            return _NO_ROW
        return int(row[0]) if row[0] >= row_id else None

    def _loader(self, ids: array[int]) -> Callable[[], list[RawRecord]]:
        def load() -> list[RawRecord]:
            why = "the data is not a blob"
            try:
                records = self._fetch(ids[0], ids[-1])
            except sqlite3.Error as error:  # some row's page is gone; the others are still to be had
                records, why = [], short_reason(error)
                for row_id in ids:
                    with contextlib.suppress(sqlite3.Error):
                        records += self._fetch(row_id, row_id)
            if len(records) < len(ids):
                where = f"{self._name}: rows {ids[0]} to {ids[-1]}"
                self._log.add(Loss(LossKind.DAMAGED, where, why, len(ids) - len(records)))
            records.sort(key=lambda record: record[0])
            return records

        return load

    def _fetch(self, first: int, last: int) -> list[RawRecord]:
        query = "SELECT topic_id, timestamp, data FROM messages WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        most = min(last - first + 1, 2**63 - 1)
        return [
            (time, self._index_of[topic_id], data)
            for topic_id, time, data in self._connection.execute(query, (first, last, most))
            if topic_id in self._index_of and isinstance(time, int) and isinstance(data, bytes)
        ]

    def _report(self) -> None:
        if self._orphans:
            where = f"{self._name}: rows of topics that the file does not declare"
            self._log.add(Loss(LossKind.DAMAGED, where, "their topic and type are unknown", self._orphans))
        if self._timeless:
            where = f"{self._name}: rows without a time"
            self._log.add(Loss(LossKind.DAMAGED, where, "their timestamp is no whole number", self._timeless))
        stated, size = self._stated_bytes(), self._path.stat().st_size
        if self._broken:
            kind = LossKind.TRUNCATED if stated and stated > size else LossKind.DAMAGED
            missing = stated - size if kind is LossKind.TRUNCATED else None
            self._log.add(Loss(kind, f"{self._name}: table `messages`", "; ".join(self._broken), None, missing))

        elif stated > size:
            self._log.note(
                f"{self._name}: {stated - size} bytes shorter than its header says, but its table can be walked"
            )
        if 0 < stated < size and not self._path.with_name(self._path.name + "-wal").exists():
            what = f"{size - stated} bytes after the end of the recording were not read"
            self._log.add(Loss(LossKind.DAMAGED, f"{self._name}: from byte {stated}", what, None, size - stated))

    def _stated_bytes(self) -> int:
        """Bytes that the database should have by its header (page size at byte 16, pages at byte 28;
        big-endian); 0 where the header does not say. https://www.sqlite.org/fileformat.html#the_database_header"""
        with self._path.open("rb") as file:
            head = file.read(100)
        if head[24:28] != head[92:96]:  # last written by an SQLite that did not keep the number of pages
            return 0
        page = int.from_bytes(head[16:18], "big")
        return (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
