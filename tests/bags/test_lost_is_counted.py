"""What a file's own counts promise and reading does not find is a loss, by name; never "nothing lost"."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from bag_making import BUILDERS, Row, data_file, write_mcap
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.writer import CompressionType

from tether.bags import LossKind, Report, open_bag
from tether.bags.layout import lay_out
from tether.bags.report import LossLog
from tether.bags.writer import BagWriter
from tether.errors import InvalidInputError

FOOTER_AND_MAGIC_BYTES = 37
ATTACHMENT, RESERVED, PRIVATE = 0x09, 0x26, 0x86


def read(path: Path) -> Report:
    with open_bag(path) as bag:
        return bag.read_through()


def message_at(data: bytes, number: int) -> int:
    """Byte at which the file's message record `number` begins; for files without chunks."""
    at, met = 8, 0
    while True:
        if data[at] == Opcode.MESSAGE:
            if met == number:
                return at
            met += 1
        at += 9 + int.from_bytes(data[at + 1 : at + 9], "little")


@pytest.mark.parametrize("cut_bytes", [0, FOOTER_AND_MAGIC_BYTES])
@pytest.mark.parametrize("kind", [ATTACHMENT, RESERVED, PRIVATE])
def test_a_message_of_changed_kind_costs_itself_alone_and_is_counted(
    kind: int, cut_bytes: int, tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, use_chunking=False)
    broken = bytearray(path.read_bytes())
    broken[message_at(broken, 40)] = kind
    path.write_bytes(broken[: len(broken) - cut_bytes])
    report = read(path)
    assert report.delivered == len(rows) - 1
    assert report.lost_messages == 1 and "nothing lost" not in report.table()


@pytest.mark.parametrize("kind", [Opcode.MESSAGE_INDEX, Opcode.METADATA, Opcode.DATA_END, RESERVED, PRIVATE])
@pytest.mark.parametrize("statistics", [True, False])
def test_a_chunk_of_changed_kind_in_a_file_without_an_end_is_counted(
    kind: int, statistics: bool, tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, use_statistics=statistics)
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    chunk = summary.chunk_indexes[1]
    held = sum(chunk.message_start_time <= row[2] <= chunk.message_end_time for row in rows)
    broken = bytearray(path.read_bytes())
    broken[chunk.chunk_start_offset] = kind
    path.write_bytes(broken[:-FOOTER_AND_MAGIC_BYTES])
    report = read(path)
    assert (report.delivered, report.lost_messages) == (len(rows) - held, held)


@pytest.mark.parametrize("kind", ["mcap-zstd", "rosbag2-sqlite", "ros1-plain"])
def test_what_is_joined_onto_a_recording_is_named(kind: str, tmp_path: Path, rows: list[Row]) -> None:
    bag = BUILDERS[kind](tmp_path, rows)
    assert read(bag).intact
    file = data_file(bag)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:4096])
    report = read(bag)
    assert report.delivered == len(rows)
    assert "4096 bytes after the end of the recording were not read" in report.table()


def test_rows_that_metadata_counts_and_the_database_does_not_have_are_lost(tmp_path: Path, rows: list[Row]) -> None:
    bag = BUILDERS["rosbag2-sqlite"](tmp_path, rows)
    with sqlite3.connect(data_file(bag)) as connection:
        connection.execute("DELETE FROM messages WHERE id > 100")
    report = read(bag)
    assert (report.delivered, report.lost_messages) == (100, len(rows) - 100)


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ("DELETE FROM topics", None),
        ("UPDATE messages SET topic_id = 99 WHERE id <= 26", 26),
        ("UPDATE messages SET topic_id = 99, data = 'x' WHERE id <= 26", 26),
        ("UPDATE messages SET timestamp = 'x' WHERE id <= 26", 26),
        ("UPDATE messages SET data = 'x' WHERE id <= 14", 14),
        ("UPDATE messages SET timestamp = 'x', topic_id = 99 WHERE id <= 9", 9),
        ("UPDATE messages SET id = -id", 0),
        ("UPDATE messages SET id = id - 10", 0),
        ("UPDATE messages SET id = -9223372036854775808 WHERE id = 1", 0),
        ("UPDATE messages SET id = 9223372036854775807 WHERE id = 1", 0),
    ],
)
def test_a_row_that_cannot_be_read_is_lost_once_and_every_other_is_read(
    change: str, lost: int | None, tmp_path: Path, rows: list[Row]
) -> None:
    bag = BUILDERS["rosbag2-sqlite"](tmp_path, rows)
    with sqlite3.connect(data_file(bag)) as connection:
        connection.execute(change)
    report = read(bag)
    lost = len(rows) if lost is None else lost
    assert (report.delivered, report.lost_messages) == (len(rows) - lost, lost), report.table()


def test_what_stands_before_the_damage_in_an_indexed_chunk_without_checksum_is_kept(
    tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, CompressionType.NONE, chunk_bytes=2**20, enable_crcs=False)
    broken = bytearray(path.read_bytes())
    at = broken.find(rows[60][3]) - 22 - 8  # the length of the message's record
    broken[at + 6] = 1
    path.write_bytes(broken)
    report = read(path)
    assert (report.delivered, report.lost_messages) == (60, len(rows) - 60)


def test_a_damaged_table_of_topics_does_not_cost_the_topics_that_can_be_read(tmp_path: Path, rows: list[Row]) -> None:
    """Two topics, the first with a long QoS text, so that they lie on pages of their own; the second's is zeroed."""
    bag = BUILDERS["rosbag2-sqlite"](tmp_path, rows)
    file = data_file(bag)
    with sqlite3.connect(file) as connection:
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("UPDATE topics SET offered_qos_profiles = ? WHERE id = 2", ("#" * 3 * page,))
    broken = bytearray(file.read_bytes())
    at = broken.rfind(b"#" * (page - 4))
    broken[at - 4 : at + page - 4] = b"\xff" * page
    file.write_bytes(broken)
    report = read(bag)
    assert report.delivered > 0 and not report.intact


def test_what_is_missing_is_counted_also_when_only_some_topics_are_played(tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, use_chunking=False)
    broken = bytearray(path.read_bytes())
    broken[message_at(broken, 40)] = ATTACHMENT
    path.write_bytes(broken)
    with open_bag(path) as bag:
        assert len(list(bag.messages([rows[40][0]]))) < sum(row[0] == rows[40][0] for row in rows)
        assert bag.report().lost == "1 messages lost"


def test_a_recording_that_was_never_finished_is_not_said_to_have_lost_no_message(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "run"):
        shutil.copytree(tmp_path / "run", tmp_path / "killed")  # its metadata.yaml counts 0 messages
    report = read(tmp_path / "killed")
    assert [(loss.kind, loss.messages) for loss in report.losses] == [(LossKind.TRUNCATED, None)]
    assert report.lost == "an unknown number of messages lost"


@pytest.mark.parametrize("left", [None, b"", b"nothing of a bag"])
def test_a_file_of_such_a_recording_that_is_gone_had_an_unknown_number_of_messages(
    left: bytes | None, tmp_path: Path
) -> None:
    with BagWriter(tmp_path / "run"):
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
    file = tmp_path / "killed" / "run_0.mcap"
    file.unlink()
    if left is not None:
        file.write_bytes(left)
    log = LossLog()
    with pytest.raises(InvalidInputError):
        lay_out(tmp_path / "killed", log)
    (loss,) = log.losses
    assert loss.kind is (LossKind.MISSING_FILE if left is None else LossKind.UNREADABLE_FILE)
    assert loss.messages is None


@pytest.mark.parametrize("column", ["name", "type"])
@pytest.mark.parametrize("value", ["NULL", "7", "x'ff'"])
def test_messages_of_a_topic_without_name_or_type_are_lost_and_the_topic_is_not_made_up(
    column: str, value: str, tmp_path: Path, rows: list[Row]
) -> None:
    bag = BUILDERS["rosbag2-sqlite"](tmp_path, rows)
    with sqlite3.connect(data_file(bag)) as connection:
        table = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'topics'").fetchone()[0]
        connection.execute("ALTER TABLE topics RENAME TO sound")
        connection.execute(table.replace(" NOT NULL", "").replace("TEXT", "BLOB"))
        connection.execute("INSERT INTO topics SELECT * FROM sound")
        (number, name) = connection.execute("SELECT id, name FROM topics ORDER BY id LIMIT 1").fetchone()
        connection.execute(f"UPDATE topics SET {column} = {value} WHERE id = ?", (number,))
    report = read(bag)
    lost = sum(row[0] == name for row in rows)
    assert {topic.name for topic in report.topics} == {row[0] for row in rows} - {name}
    assert (report.delivered, report.lost_messages, report.lost_uncounted) == (len(rows) - lost, lost, 0)
    assert any(f"topic {number} has no {column}; its messages are left out" in note for note in report.notes)
