"""One set of messages, written by the libraries' own writers in every storage and compression, read back."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
import yaml
from bag_making import BUILDERS, IMU, START_NS, Row, write_mcap, write_rosbag2
from mcap.reader import make_reader
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import StoragePlugin

from tether.bags import LossKind, open_bag
from tether.errors import InvalidInputError


def read(path: Path) -> list[tuple[str, str, int]]:
    with open_bag(path) as bag:
        return [(m.topic, m.type, m.log_time_ns) for m in bag.messages()]


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_every_message_comes_back_in_order(kind: str, bags_of_every_kind: dict[str, Path], rows: list[Row]) -> None:
    with open_bag(bags_of_every_kind[kind]) as bag:
        messages = list(bag.messages())
        report = bag.report()
    assert [(m.topic, m.type, m.log_time_ns) for m in messages] == [row[:3] for row in rows]
    assert [m.header_stamp_ns for m in messages] == [row[2] - 2_000_000 for row in rows]
    assert report.intact and report.complete and report.delivered == len(rows)
    assert (report.start_ns, report.end_ns) == (rows[0][2], rows[-1][2])


@pytest.mark.parametrize("kind", sorted(k for k in BUILDERS if not k.startswith("ros1")))
def test_ros2_bytes_come_back_as_recorded(kind: str, bags_of_every_kind: dict[str, Path], rows: list[Row]) -> None:
    with open_bag(bags_of_every_kind[kind]) as bag:
        assert [m.raw for m in bag.messages()] == [row[3] for row in rows]


@pytest.mark.parametrize("kind", ["rosbag2-mcap", "rosbag2-sqlite", "rosbag2-mcap-file-zstd"])
@pytest.mark.parametrize(
    "text", [None, "", "not: a bag", "{", "rosbag2_bagfile_information: 7", "\x00\x01", "[" * 20_000], ids=range(7)
)
def test_missing_empty_or_senseless_metadata_costs_no_message(
    kind: str, text: str | None, bags_of_every_kind: dict[str, Path], rows: list[Row], tmp_path: Path
) -> None:
    bag_path = tmp_path / "bag"
    shutil.copytree(bags_of_every_kind[kind], bag_path)
    (bag_path / "metadata.yaml").unlink()
    if text is not None:
        (bag_path / "metadata.yaml").write_text(text)
    with open_bag(bag_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert any("metadata.yaml" in note for note in report.notes)


def test_wrong_counts_in_metadata_are_noted_and_nothing_is_called_lost(
    bags_of_every_kind: dict[str, Path], rows: list[Row], tmp_path: Path
) -> None:
    path = tmp_path / "bag"
    shutil.copytree(bags_of_every_kind["rosbag2-mcap"], path)
    data = yaml.safe_load((path / "metadata.yaml").read_text())
    data["rosbag2_bagfile_information"]["files"][0]["message_count"] = 999
    (path / "metadata.yaml").write_text(yaml.safe_dump(data))
    with open_bag(path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert any("999" in note for note in report.notes)


def test_a_renamed_file_is_read_in_the_place_of_the_one_that_metadata_names(
    bags_of_every_kind: dict[str, Path], rows: list[Row], tmp_path: Path
) -> None:
    path = tmp_path / "bag"
    shutil.copytree(bags_of_every_kind["rosbag2-mcap"], path)
    (path / "b.mcap").rename(path / "renamed.mcap")
    with open_bag(path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert any("renamed.mcap" in note for note in report.notes)


def test_kind_is_decided_by_first_bytes_whatever_the_name(
    bags_of_every_kind: dict[str, Path], rows: list[Row], tmp_path: Path
) -> None:
    for kind, name in (("rosbag2-sqlite", "x.mcap"), ("mcap-zstd", "x.bag"), ("ros1-lz4", "x.db3")):
        source = bags_of_every_kind[kind]
        shutil.copy(next(source.glob("*.db3")) if source.is_dir() else source, tmp_path / name)
        with open_bag(tmp_path / name) as bag:
            report = bag.read_through()
        assert report.delivered == len(rows)
        assert any("named as" in note for note in report.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty file"), (b"topic,time\n/imu,1\n" * 9, "text"), (b"\x00\xff\x13\x37" * 64, "256 bytes beginning")],
)
def test_files_that_are_no_bags_are_refused_with_what_they_look_like(content: bytes, said: str, tmp_path: Path) -> None:
    for name in ("x.mcap", "x.db3", "x.bag"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=said):
            open_bag(tmp_path / name)


def test_nothing_at_the_path_and_an_empty_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing there"):
        open_bag(tmp_path / "absent")
    with pytest.raises(InvalidInputError, match="no file of a bag"):
        open_bag(tmp_path)


def test_an_empty_split_is_named_and_the_others_are_read(tmp_path: Path, rows: list[Row]) -> None:
    write_mcap(tmp_path / "run_0.mcap", rows[:60])
    (tmp_path / "run_1.mcap").write_bytes(b"")
    write_mcap(tmp_path / "run_2.mcap", rows[60:])
    with open_bag(tmp_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows)
    assert [(loss.kind, loss.where) for loss in report.losses] == [(LossKind.UNREADABLE_FILE, "run_1.mcap")]


def test_a_bag_without_messages_is_a_bag(tmp_path: Path) -> None:
    with (tmp_path / "e.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start("ros2", "test")
        writer.finish()
    write_rosbag2(tmp_path / "s", [], StoragePlugin.SQLITE3)
    for path in (tmp_path / "e.mcap", tmp_path / "s"):
        with open_bag(path) as bag:
            report = bag.read_through()
        assert report.delivered == 0 and report.intact and report.start_ns is None


def test_unknown_types_are_named_and_counted_and_the_rest_is_read(tmp_path: Path, rows: list[Row]) -> None:
    strange = [("/strange", "nobody_msgs/msg/Knows", row[2], row[3]) for row in rows[:7]]
    with (tmp_path / "x.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start("ros2", "test")
        known = writer.register_channel("/imu", "cdr", writer.register_schema(IMU, "", b""))
        other = writer.register_channel("/strange", "cdr", writer.register_schema("nobody_msgs/msg/Knows", "", b""))
        foreign = writer.register_channel("/json", "json", 0)
        imus = [row for row in rows if row[1] == IMU]
        for row in imus:
            writer.add_message(known, row[2], row[3], row[2])
        for row in strange:
            writer.add_message(other, row[2], row[3], row[2])
        writer.add_message(foreign, START_NS, b"{}", START_NS)
        writer.finish()
    with open_bag(tmp_path / "x.mcap") as bag:
        report = bag.read_through()
    assert report.delivered == len(imus)
    assert [(loss.kind, loss.where, loss.messages) for loss in report.losses] == [
        (LossKind.UNKNOWN_TYPE, "/strange", 7),
        (LossKind.UNKNOWN_ENCODING, "/json", 1),
    ]


def test_types_of_the_bag_win_over_the_store(tmp_path: Path) -> None:
    """The same name with another layout, as after a change of the package."""
    definition = b"float64 older\nuint32 fields\n"
    with (tmp_path / "x.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start("ros2", "test")
        schema = writer.register_schema("sensor_msgs/msg/Imu", "ros2msg", definition)
        channel = writer.register_channel("/imu", "cdr", schema)
        body = b"\x00\x01\x00\x00" + (1.5).hex().encode()[:0] + bytes.fromhex("000000000000f83f") + b"\x07\x00\x00\x00"
        writer.add_message(channel, 5, body, 5)
        writer.finish()
    with open_bag(tmp_path / "x.mcap") as bag:
        (message,) = bag.messages()
    assert (message.message.older, message.message.fields) == (1.5, 7)


def test_messages_that_do_not_fit_their_type_are_counted_by_topic_and_left_out(tmp_path: Path, rows: list[Row]) -> None:
    broken = [(t, ty, time, data[:30] if i in (3, 9) else data) for i, (t, ty, time, data) in enumerate(rows)]
    write_mcap(tmp_path / "x.mcap", broken)
    with open_bag(tmp_path / "x.mcap") as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) - 2
    assert [(loss.kind, loss.where, loss.messages) for loss in report.losses] == [
        (LossKind.CORRUPT_MESSAGE, "/joint_states", 2)
    ]


def test_reading_twice_does_not_count_a_loss_twice(tmp_path: Path, rows: list[Row]) -> None:
    broken = [(t, ty, time, data[:30] if i == 3 else data) for i, (t, ty, time, data) in enumerate(rows)]
    write_mcap(tmp_path / "x.mcap", broken)
    with open_bag(tmp_path / "x.mcap") as bag:
        first = bag.read_through().to_json()
        assert bag.read_through().to_json() == first


def test_log_times_out_of_order_are_delivered_in_order(tmp_path: Path, rows: list[Row]) -> None:
    shuffled = [rows[(i * 37) % len(rows)] for i in range(len(rows))]
    write_mcap(tmp_path / "m.mcap", shuffled, chunk_bytes=8192)
    write_mcap(tmp_path / "loose.mcap", shuffled, use_chunking=False)
    write_rosbag2(tmp_path / "s", shuffled, StoragePlugin.SQLITE3)
    for path in (tmp_path / "m.mcap", tmp_path / "loose.mcap", tmp_path / "s"):
        assert read(path) == [row[:3] for row in rows]


def test_filter_and_start_leave_out_what_is_not_asked_for(bags_of_every_kind: dict[str, Path], rows: list[Row]) -> None:
    with open_bag(bags_of_every_kind["mcap-zstd"]) as bag:
        some = list(bag.messages(topics=["/joint_states"], start_ns=rows[60][2]))
        assert [m.log_time_ns for m in some] == [r[2] for r in rows[60:] if r[0] == "/joint_states"]
        with pytest.raises(InvalidInputError, match="/nothing"):
            next(bag.messages(topics=["/nothing"]))


def test_rows_in_a_write_ahead_log_are_read(tmp_path: Path, rows: list[Row]) -> None:
    """As a recorder that was killed leaves it: the newest rows are only in the -wal file."""
    write_rosbag2(tmp_path / "s", rows[:60], StoragePlugin.SQLITE3)
    live, left = tmp_path / "s" / "s.db3", tmp_path / "left"
    left.mkdir()
    connection = sqlite3.connect(live)
    connection.execute("PRAGMA journal_mode = WAL")
    topics = dict(connection.execute("SELECT name, id FROM topics").fetchall())
    for topic, _, time, data in rows[60:]:
        connection.execute(
            "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", (topics[topic], time, data)
        )
    connection.commit()
    for name in ("s.db3", "s.db3-wal"):
        shutil.copy(tmp_path / "s" / name, left / name)
    connection.close()
    assert read(left / "s.db3") == [row[:3] for row in rows]


def test_records_of_applications_are_passed_over_also_where_there_is_no_index(tmp_path: Path, rows: list[Row]) -> None:
    """An opcode from 0x80 on between the chunks, in a file whose index must be made anew."""
    whole = write_mcap(tmp_path / "x.mcap", rows, repeat_channels=False, repeat_schemas=False).read_bytes()
    with (tmp_path / "x.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    private = bytes([0x80]) + (5).to_bytes(8, "little") + b"hello"
    begins = [chunk.chunk_start_offset for chunk in summary.chunk_indexes]
    pieces = [whole[a:b] for a, b in zip([0, *begins], [*begins, len(whole)], strict=True)]
    (tmp_path / "y.mcap").write_bytes(private.join(pieces))
    with open_bag(tmp_path / "y.mcap") as bag:
        assert [m.raw for m in bag.messages()] == [row[3] for row in rows]
        assert bag.report().intact
