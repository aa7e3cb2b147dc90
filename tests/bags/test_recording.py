"""The recorder's core: what it writes, and what is left of it when things go wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
import yaml
from bag_making import IMU, Row
from mcap.reader import NonSeekingReader, make_reader
from mcap.records import Metadata
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType
from rosbags.highlevel import AnyReader

from tether.bags import LossKind, open_bag
from tether.bags.mcap_output import McapOutput
from tether.bags.qos import make_qos
from tether.bags.writer import BagWriter, WriterOptions
from tether.errors import InvalidInputError


def record(path: Path, rows: list[Row], options: WriterOptions | None = None) -> None:
    with BagWriter(path, options, custom_data={"seed": "7"}) as writer:
        for topic, type_ in dict.fromkeys((row[0], row[1]) for row in rows):
            writer.add_topic(topic, type_, [make_qos(reliable=True, transient_local=topic == "/joint_states")])
        for topic, _, time, data in rows:
            assert writer.write(topic, data, time)


@pytest.fixture
def recorded(tmp_path: Path, rows: list[Row]) -> Path:
    record(tmp_path / "run", rows)
    return tmp_path / "run"


def test_our_reader_gives_back_every_byte_and_time(recorded: Path, rows: list[Row]) -> None:
    with open_bag(recorded) as bag:
        assert [(m.topic, m.type, m.log_time_ns, m.raw) for m in bag.messages()] == rows
        assert bag.report().intact and not bag.report().notes
        assert bag.custom_data == {"seed": "7"}
        assert bag.topics["/joint_states"].qos == (make_qos(reliable=True, transient_local=True),)


def test_rosbags_reads_it_as_a_rosbag2_folder_with_types_hashes_and_qos(recorded: Path, rows: list[Row]) -> None:
    with AnyReader([recorded]) as reader:  # without a store: the definitions must be in the file, and their hash right
        read = [(c.topic, c.msgtype, t, bytes(raw)) for c, t, raw in reader.messages()]
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)
        digests = {c.msgtype: c.digest for c in reader.connections}
        assert reader.message_count == len(rows)
        assert (reader.start_time, reader.end_time) == (rows[0][2], rows[-1][2] + 1)
    assert read == rows
    assert digests[IMU] == "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"


def test_mcap_library_finds_profile_checksums_index_and_rosbag2_metadata(recorded: Path, rows: list[Row]) -> None:
    with (recorded / "run_0.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
        assert summary is not None and summary.statistics is not None
        assert summary.statistics.message_count == len(rows)
        assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}
        assert {s.encoding for s in summary.schemas.values()} == {"ros2msg"}
        for channel in summary.channels.values():
            assert channel.metadata["topic_type_hash"].startswith("RIHS01_")
            assert "reliability: reliable" in channel.metadata["offered_qos_profiles"]
        kept = [yaml.safe_load(record.metadata["serialized_metadata"]) for record in reader.iter_metadata()]
        assert [about["message_count"] for about in kept] == [0, len(rows)]  # of several, rosbag2 takes the last
        assert sum(1 for _ in reader.iter_messages()) == len(rows)


def test_metadata_has_the_keys_and_order_of_version_9(recorded: Path, rows: list[Row]) -> None:
    info = yaml.safe_load((recorded / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert list(info) == [
        "version",
        "storage_identifier",
        "duration",
        "starting_time",
        "message_count",
        "topics_with_message_count",
        "compression_format",
        "compression_mode",
        "relative_file_paths",
        "files",
        "custom_data",
        "ros_distro",
    ]
    assert info["version"] == 9 and info["storage_identifier"] == "mcap" and info["ros_distro"] == "jazzy"
    assert info["starting_time"] == {"nanoseconds_since_epoch": rows[0][2]}
    assert info["duration"] == {"nanoseconds": rows[-1][2] - rows[0][2]}
    assert info["files"][0]["message_count"] == info["message_count"] == len(rows)
    topic = info["topics_with_message_count"][0]["topic_metadata"]
    assert list(topic) == [
        "name",
        "type",
        "serialization_format",
        "offered_qos_profiles",
        "type_description_hash",
    ]
    assert topic["offered_qos_profiles"][0]["history"] == "keep_last"
    assert topic["offered_qos_profiles"][0]["deadline"] == {"sec": 9223372036, "nsec": 854775807}


def test_splits_by_log_time_and_by_size_lose_nothing(tmp_path: Path, rows: list[Row]) -> None:
    slow = [(t, ty, rows[0][2] + i * 50_000_000, data) for i, (t, ty, _, data) in enumerate(rows)]
    record(tmp_path / "time", slow, WriterOptions(split_s=1.0))
    big = [(t, ty, time, data) for t, ty, time, data in rows for _ in range(20)]
    record(
        tmp_path / "size",
        big,
        WriterOptions(split_bytes=2**16, chunk_bytes=4096, compression=CompressionType.NONE),
    )
    for name, whole in (("time", slow), ("size", big)):
        info = yaml.safe_load((tmp_path / name / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
        assert len(info["relative_file_paths"]) > 3
        assert sum(file["message_count"] for file in info["files"]) == len(whole)
        with open_bag(tmp_path / name) as bag:
            assert [m.log_time_ns for m in bag.messages()] == sorted(row[2] for row in whole)
            assert bag.report().intact


def test_what_was_recorded_before_the_last_second_survives_kill_9(tmp_path: Path) -> None:
    """The child records, says when a second has passed since the last message, and is killed without warning."""
    child = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from bag_making import make_rows
        from tether.bags.writer import BagWriter
        writer = BagWriter(Path({str(tmp_path / "run")!r}), custom_data={{"seed": "7"}})
        for topic, type_, at, data in make_rows():
            if topic not in writer._topics:
                writer.add_topic(topic, type_)
            writer.write(topic, data, at)
        time.sleep(1.0)
        print("recorded", flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().strip() == "recorded"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
    with open_bag(tmp_path / "run") as bag:
        report = bag.read_through()
    assert report.delivered == 120
    assert [loss.kind for loss in report.losses] == [LossKind.TRUNCATED]  # the end was never written
    assert report.lost_messages == 0
    about = []
    with (tmp_path / "run" / "run_0.mcap").open("rb") as file:
        reader = NonSeekingReader(file)  # how `mcap recover` reads: record by record, as far as it goes
        count = 0
        with pytest.raises(Exception):  # noqa: B017 - the library's own end-of-file error, which it does not export
            for _ in reader.iter_messages(log_time_order=False):
                count += 1
        assert count == 120
        file.seek(0)
        with contextlib.suppress(Exception):  # that error again
            for record in StreamReader(file).records:
                if isinstance(record, Metadata):
                    about.append(yaml.safe_load(record.metadata["serialized_metadata"]))
    # from here `ros2 bag reindex` takes what it cannot find out from the messages
    assert [(a["ros_distro"], a["custom_data"]) for a in about] == [("jazzy", {"seed": "7"})]


class _FullDisk:
    """A file on a disk that takes `room` bytes and no more."""

    def __init__(self, file: BinaryIO, room: int) -> None:
        self._file = file
        self._room = room

    def write(self, data: memoryview) -> int:
        if len(data) > self._room:
            if self._room:
                written = self._file.write(data[: self._room])
                self._room -= written
                return written
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room -= len(data)
        return self._file.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_a_full_disk_ends_the_recording_by_name_and_keeps_what_was_written(tmp_path: Path, rows: list[Row]) -> None:
    class Cramped(McapOutput):
        def _open(self, path: Path) -> BinaryIO:
            return _FullDisk(super()._open(path), 30_000)  # type: ignore[return-value]

    said: list[str] = []
    stopped = threading.Event()

    def on_failure(reason: str) -> None:
        said.append(reason)
        stopped.set()

    writer = BagWriter(
        tmp_path / "run",
        WriterOptions(chunk_bytes=4096),
        on_failure=on_failure,
        make_output=lambda path, options: Cramped(path, 4096, CompressionType.NONE, "test"),
    )
    for topic, type_ in dict.fromkeys((row[0], row[1]) for row in rows):
        writer.add_topic(topic, type_)
    for topic, _, time, data in rows * 3:
        writer.write(topic, data, time)
    assert stopped.wait(30.0)
    assert not writer.write("/imu/data_raw", rows[1][3], rows[1][2])  # refused at once; the caller goes on
    summary = writer.close()
    assert summary.failure is not None and "the disk is full" in summary.failure and said == [summary.failure]
    kept, dropped = sum(summary.messages.values()), sum(summary.dropped.values())
    assert kept > 20 and kept + dropped == len(rows) * 3 + 1
    with open_bag(tmp_path / "run") as bag:
        assert bag.read_through().delivered == kept


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_recorder_itself_is_told_and_what_it_had_in_hand_is_counted_as_dropped(
    tmp_path: Path, rows: list[Row]
) -> None:
    class Faulty(McapOutput):
        def add(self, *arguments: object, **more: object) -> None:
            if arguments[0] == "/joint_states":
                raise KeyError("a mistake of ours")
            super().add(*arguments, **more)  # type: ignore[arg-type]

    said: list[str] = []
    stopped = threading.Event()

    def on_failure(reason: str) -> None:
        said.append(reason)
        stopped.set()

    writer = BagWriter(
        tmp_path / "run",
        on_failure=on_failure,
        make_output=lambda path, options: Faulty(path, 4096, CompressionType.NONE, "test"),
    )
    for topic, type_ in dict.fromkeys((row[0], row[1]) for row in rows):
        writer.add_topic(topic, type_)
    for topic, _, time, data in rows:
        writer.write(topic, data, time)
    assert stopped.wait(30.0)
    summary = writer.close()
    assert summary.failure is not None and "the recorder itself has failed" in summary.failure
    assert said == [summary.failure]
    assert sum(summary.messages.values()) + sum(summary.dropped.values()) == len(rows)
    assert summary.messages.get("/joint_states", 0) == 0
    with open_bag(tmp_path / "run") as bag:
        assert bag.read_through().delivered == sum(summary.messages.values())


def test_a_slow_disk_never_keeps_the_caller_waiting_and_drops_are_counted_by_topic(
    tmp_path: Path, rows: list[Row]
) -> None:
    gate = threading.Event()

    class Stuck(McapOutput):
        def add(self, *arguments: object, **more: object) -> None:
            gate.wait(60.0)
            super().add(*arguments, **more)  # type: ignore[arg-type]

    writer = BagWriter(
        tmp_path / "run",
        WriterOptions(queue_bytes=2**20),
        make_output=lambda path, options: Stuck(path, 2**20, CompressionType.ZSTD, "test"),
    )
    writer.add_topic("/imu/data_raw", IMU)
    big = rows[1][3] + bytes(2**18)
    taken = [writer.write("/imu/data_raw", big, i) for i in range(40)]
    assert not all(taken) and taken.count(False) == writer.dropped["/imu/data_raw"]
    assert not writer.end(0.0), "whoever has no time to wait goes on, and nothing is lost"
    gate.set()
    summary = writer.close()
    assert summary.messages["/imu/data_raw"] == taken.count(True)


def test_mistakes_are_refused_before_anything_is_recorded(tmp_path: Path, rows: list[Row]) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    with pytest.raises(InvalidInputError, match="something there already"):
        BagWriter(tmp_path / "taken")
    with pytest.raises(InvalidInputError, match="flush_s"):
        WriterOptions(flush_s=0.0)
    with pytest.raises(InvalidInputError, match="split_bytes"):
        WriterOptions(split_bytes=0)
    with BagWriter(tmp_path / "run") as writer:
        with pytest.raises(InvalidInputError, match="type store"):
            writer.add_topic("/x", "nobody_msgs/msg/Knows")
        with pytest.raises(InvalidInputError, match="add_topic"):
            writer.write("/x", b"", 0)
        writer.add_topic("/imu", IMU)
        with pytest.raises(InvalidInputError, match="as it was declared"):
            writer.add_topic("/imu", "sensor_msgs/msg/JointState")
        with pytest.raises(InvalidInputError, match="0 or more"):
            writer.write("/imu", rows[1][3], -1)


@pytest.mark.parametrize("options", [WriterOptions(), WriterOptions(split_bytes=2**16)])
def test_a_profile_that_discovery_brings_after_the_first_message_leaves_no_topic_out(
    tmp_path: Path, rows: list[Row], options: WriterOptions
) -> None:
    imu = [row for row in rows if row[1] == IMU]
    before, after = make_qos(reliable=True), make_qos(reliable=False)
    with BagWriter(tmp_path / "run", options) as writer:
        writer.add_topic(imu[0][0], IMU, [after])
        writer.add_topic(imu[0][0], IMU, [before])  # none has come yet: the newest holds
        for number in range(400):
            assert writer.write(imu[0][0], imu[0][3], number)
            writer.add_topic(imu[0][0], IMU, [before, after])
    with open_bag(tmp_path / "run") as bag:
        assert bag.topics[imu[0][0]].qos == (before,)
    with AnyReader([tmp_path / "run"]) as reader:
        assert sum(1 for _ in reader.messages()) == 400
