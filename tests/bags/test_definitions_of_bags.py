"""Bags whose own definition of a type is wrong: the messages that fit the type store's are read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from bag_making import IMU, Row
from mcap.writer import Writer

from tether.bags import open_bag
from tether.bags.report import LossKind
from tether.errors import InvalidInputError


def write(path: Path, definition: bytes, messages: list[bytes], type_: str = IMU) -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "tester")
        schema = writer.register_schema(type_, "ros2msg", definition)
        channel = writer.register_channel("/imu", "cdr", schema)
        for i, data in enumerate(messages):
            writer.add_message(channel, log_time=i, data=data, publish_time=i)
        writer.finish()
    return path


def imus(rows: list[Row]) -> list[bytes]:
    return [data for topic, _, _, data in rows if topic == "/imu/data_raw"]


@pytest.mark.parametrize("packed", [False, True])
def test_definition_that_fits_no_message_gives_way_to_the_stores(tmp_path: Path, rows: list[Row], packed: bool) -> None:
    data = [zstandard.ZstdCompressor().compress(raw) if packed else raw for raw in imus(rows)]
    with open_bag(write(tmp_path / "x.mcap", b"uint8 level", data)) as bag:
        first = next(iter(bag.messages()))
        report = bag.read_through()
    assert (report.delivered, report.lost_messages) == (80, 0)
    assert first.message.header.frame_id == "imu_link"
    assert first.header_stamp_ns is not None and first.header_stamp_ns > 0
    assert any("does not fit its messages; the store's does" in note for note in report.notes)


def test_definition_of_another_time_is_kept_where_messages_fit_it(tmp_path: Path) -> None:
    point = b"\x00\x01\x00\x00" + b"\x01\x00\x00\x00"
    with open_bag(write(tmp_path / "x.mcap", b"int32 only", [point], "std_msgs/msg/Float64")) as bag:
        message = next(iter(bag.messages()))
        report = bag.read_through()
    assert message.message.only == 1
    assert (report.delivered, list(report.notes)) == (1, [])


def test_messages_that_fit_neither_are_corrupt_by_the_bags_own_definition(tmp_path: Path) -> None:
    with open_bag(write(tmp_path / "x.mcap", b"uint8 level", [b"\x00\x01\x00\x00abcdef"])) as bag:
        (loss,) = bag.read_through().losses
    assert (loss.kind, loss.messages) == (LossKind.CORRUPT_MESSAGE, 1)


def test_a_definition_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    with open_bag(write(tmp_path / "x.mcap", b"][ {", [b"\x00\x01\x00\x00"], "foo_msgs/msg/Bar")) as bag:
        (loss,) = bag.read_through().losses
    assert loss.kind is LossKind.UNKNOWN_TYPE
    assert loss.what == "foo_msgs/msg/Bar is defined unreadably in the bag and not in the type store"


def test_pointer_of_git_lfs_is_named_with_what_fetches_the_bag(tmp_path: Path) -> None:
    path = tmp_path / "x.mcap"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    with pytest.raises(InvalidInputError, match=r"Git LFS pointer(.|\n)*git lfs pull"):
        open_bag(path)
