"""Files that would fill the memory or the disk, or keep the reader waiting for ever."""

from __future__ import annotations

import gzip
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zstandard
from bag_making import BUILDERS, Row, data_file, write_mcap
from mcap.reader import make_reader
from mcap.writer import Writer

from tether.bags import open_bag
from tether.bags.mcap_walk import MAX_CHUNK_BYTES
from tether.bags.qos import make_qos, qos_from_text, qos_to_text
from tether.errors import InvalidInputError, TetherError


def zeros_packed(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    piece = bytes(2**20)
    return b"".join([packer.compress(piece) for _ in range(size // len(piece))] + [packer.flush()])


def test_a_chunk_that_would_unpack_beyond_the_limit_is_named_and_not_unpacked(tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows)
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    first = summary.chunk_indexes[0].chunk_start_offset
    stated = MAX_CHUNK_BYTES + 1
    chunk = struct.pack("<QQQII", 0, 0, stated, 0, 4) + b"zstd" + struct.pack("<Q", 8) + b"\x28\xb5\x2f\xfd\0\0\0\0"
    whole = path.read_bytes()
    path.write_bytes(whole[:first] + b"\x06" + struct.pack("<Q", len(chunk)) + chunk + whole[first:])
    with open_bag(path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows)
    assert f"more than the limit of {MAX_CHUNK_BYTES:,}" in report.table()


def test_a_packed_file_that_would_fill_the_disk_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.bags.files.MAX_UNPACK_PLAIN_BYTES", 2**20)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "x.db3.zstd").write_bytes(zeros_packed(2**26))
    with pytest.raises(TetherError, match="unpack to more than"):
        open_bag(tmp_path / "x.db3.zstd")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.db3.zstd"]


def test_a_bag_in_a_gzip_file_is_refused_with_the_way_out(tmp_path: Path, rows: list[Row]) -> None:
    whole = write_mcap(tmp_path / "x.mcap", rows).read_bytes()
    (tmp_path / "x.mcap.gz").write_bytes(gzip.compress(whole))
    with pytest.raises(TetherError, match="unpack it first"):
        open_bag(tmp_path / "x.mcap.gz")


def test_a_pipe_is_refused_by_name_and_left_out_by_name_in_a_folder(tmp_path: Path, rows: list[Row]) -> None:
    os.mkfifo(tmp_path / "pipe.mcap")
    with pytest.raises(TetherError, match="no regular file"):
        open_bag(tmp_path / "pipe.mcap")
    write_mcap(tmp_path / "x.mcap", rows)
    with open_bag(tmp_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows)
    assert any(note.startswith("pipe.mcap: left out") for note in report.notes)


@pytest.mark.parametrize("place", ["relative_file_paths: %s", "version: %s", "files: [{path: %s, message_count: 3}]"])
def test_aliases_of_aliases_in_metadata_are_not_written_out(place: str, tmp_path: Path, rows: list[Row]) -> None:
    write_mcap(tmp_path / "x.mcap", rows)
    grown = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 7))
    what = place % "[*l5, *l6]" if "relative" in place else place % "*l6"
    text = f"l0: &l0 [x]\n{grown}\nrosbag2_bagfile_information:\n  {what}\n"
    (tmp_path / "metadata.yaml").write_text(text)
    with open_bag(tmp_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert len(report.table()) < 4000


@pytest.mark.parametrize("name", ["null", "3", "{a: b}", "''", "[x.mcap]"])
def test_what_is_no_file_name_in_metadata_is_noted_and_not_missed(name: str, tmp_path: Path, rows: list[Row]) -> None:
    write_mcap(tmp_path / "x.mcap", rows)
    text = f"rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths: [x.mcap, {name}]\n"
    (tmp_path / "metadata.yaml").write_text(text)
    with open_bag(tmp_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert [note for note in report.notes if "which is no file's name" in note] == list(report.notes)


def test_a_file_that_metadata_names_thrice_is_read_once_and_not_missed(tmp_path: Path, rows: list[Row]) -> None:
    write_mcap(tmp_path / "x.mcap", rows)
    text = "rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths: [x.mcap, x.mcap, x.mcap]\n"
    (tmp_path / "metadata.yaml").write_text(text)
    with open_bag(tmp_path) as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact


@pytest.mark.parametrize("tail", [b"x", b"seven b", b"\0" * 3_000_000])
def test_bytes_behind_a_whole_packed_file_cost_nothing(tail: bytes, tmp_path: Path, rows: list[Row]) -> None:
    whole = write_mcap(tmp_path / "x.mcap", rows).read_bytes()
    half = len(whole) // 2
    frames = b"".join(zstandard.ZstdCompressor().compress(part) for part in (whole[:half], whole[half:]))
    skipped = b"\x50\x2a\x4d\x18\x02\0\0\0ab"
    (tmp_path / "y.mcap.zstd").write_bytes(frames + skipped + tail)
    with open_bag(tmp_path / "y.mcap.zstd") as bag:
        report = bag.read_through()
    assert report.delivered == len(rows) and report.intact
    assert f"{len(tail)} bytes after the end of the zstd compression were not read" in report.table()


def test_an_ended_command_removes_what_it_unpacked(tmp_path: Path, rows: list[Row]) -> None:
    bag = BUILDERS["rosbag2-mcap-file-zstd"](tmp_path, rows)
    code = (
        "import os, signal, tether.bags.cli as cli, argparse\n"
        "cli._info = lambda a: (cli.open_bag(a.bag), print(flush=True), os.kill(os.getpid(), signal.SIGTERM))\n"
        "p = argparse.ArgumentParser(); cli.add_parser(p.add_subparsers())\n"
        f"a = p.parse_args(['replay', {str(bag)!r}, '--info']); a.run(a)\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(scratch)}, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("table", ["messages", "topics", "message_definitions"])
def test_a_view_in_the_place_of_a_table_is_not_asked_for_its_rows(table: str, tmp_path: Path, rows: list[Row]) -> None:
    """It computes them, here without end."""
    bag = BUILDERS["rosbag2-sqlite"](tmp_path, rows)
    with sqlite3.connect(data_file(bag)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute(f"ALTER TABLE {table} RENAME TO sound")
        body = f"SELECT {', '.join(['1'] * len(columns))} UNION ALL SELECT {columns[0]} + 1{', 1' * (len(columns) - 1)}"
        endless = f"WITH RECURSIVE r({', '.join(columns)}) AS ({body} FROM r) SELECT * FROM r"
        connection.execute(f"CREATE VIEW {table} AS {endless}")
    if table == "message_definitions":
        with open_bag(bag) as opened:
            assert opened.read_through().delivered == len(rows)
            assert any("message_definitions is a view" in note for note in opened.report().notes)
        return
    with pytest.raises(InvalidInputError, match=f"a view that computes its rows, no table: {table}"):
        open_bag(bag)


@pytest.mark.parametrize("left_bytes", [4, 8, 12])
def test_a_packed_file_of_which_only_a_beginning_is_left_is_not_called_empty(left_bytes: int, tmp_path: Path) -> None:
    file = tmp_path / "x.mcap.zstd"
    file.write_bytes(zstandard.ZstdCompressor().compress(os.urandom(2**16))[:left_bytes])
    with pytest.raises(InvalidInputError, match=rf"{left_bytes} bytes, of which \d bytes can be unpacked") as raised:
        open_bag(file)
    assert "breaks off" in str(raised.value)
    file.write_bytes(zstandard.ZstdCompressor().compress(b""))
    with pytest.raises(InvalidInputError, match="an empty file"):
        open_bag(file)


def metadata_of(bag: Path) -> Path:
    return bag / "metadata.yaml"


@pytest.mark.parametrize("version", ['!!int ""', "!!bool foo", "!!timestamp foo", "2026-13-45"])
def test_metadata_whose_values_are_none_costs_no_message(version: str, tmp_path: Path, rows: list[Row]) -> None:
    bag = BUILDERS["rosbag2-mcap"](tmp_path, rows)
    text = metadata_of(bag).read_text(encoding="utf-8")
    metadata_of(bag).write_text(text.replace("version: 9", f"version: {version}"), encoding="utf-8")
    with open_bag(bag) as opened:
        report = opened.read_through()
    assert report.delivered == len(rows)
    assert any("metadata.yaml is not readable YAML" in note for note in report.notes)


@pytest.mark.parametrize("count", ["0x" + "f" * 5000, "1" + "0" * 4000, str(2**64)])
def test_counts_that_nobody_can_have_recorded_are_not_believed(count: str, tmp_path: Path, rows: list[Row]) -> None:
    bag = BUILDERS["rosbag2-mcap"](tmp_path, rows)
    text = metadata_of(bag).read_text(encoding="utf-8")
    changed = re.sub(r"message_count: [0-9]+", f"message_count: {count}", text)
    assert changed != text
    metadata_of(bag).write_text(changed, encoding="utf-8")
    with open_bag(bag) as opened:
        report = opened.read_through()
    assert report.delivered == len(rows)
    assert len(report.table()) < 10_000


@pytest.mark.parametrize("depth", ["9999999999", str(2**31), "ten", "-1", "[1]"])
def test_a_recorded_depth_that_no_queue_has_is_none(depth: str) -> None:
    text = qos_to_text([make_qos(True)])
    assert qos_from_text(text) == (make_qos(True),)
    assert qos_from_text(text.replace("depth: 10", f"depth: {depth}")) == ()


def test_a_profile_that_is_nothing_but_brackets_costs_no_time() -> None:
    assert qos_from_text("[" * 100_000) == ()


def test_an_array_of_things_without_bytes_is_not_made(tmp_path: Path) -> None:
    """2 × 10⁹ messages that take no byte: no message is too short for them, and no machine has the time."""
    definition = b"Nothing[2000000000] many\n" + b"=" * 80 + b"\nMSG: tester/msg/Nothing\n"
    path = tmp_path / "x.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "tester")
        schema = writer.register_schema("tester/msg/Many", "ros2msg", definition)
        channel = writer.register_channel("/many", "cdr", schema)
        writer.add_message(channel, log_time=1, data=b"\x00\x01\x00\x00", publish_time=1)
        writer.finish()
    with open_bag(path) as bag:
        report = bag.read_through()
    assert report.delivered == 0
    assert "tester/msg/Many is defined unreadably" in report.table()
