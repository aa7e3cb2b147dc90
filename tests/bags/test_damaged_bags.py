"""Cuts and flipped bits at any place of every kind of bag: nothing but TetherError, and nothing made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from bag_making import BUILDERS, Row, data_file, write_mcap
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.stream_reader import MAGIC_SIZE
from mcap.writer import CompressionType
from rosbags.rosbag1 import Reader

from tether.bags import LossKind, Report, open_bag
from tether.errors import TetherError

CASES = settings(
    max_examples=12, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def try_read(bag_path: Path) -> tuple[list[tuple[str, str, int]], Report | None]:
    try:
        with open_bag(bag_path) as bag:
            found = [(m.topic, m.type, m.log_time_ns) for m in bag.messages()]
            report = bag.report()
    except TetherError as error:
        assert str(error)
        return [], None
    assert report.table() and report.to_json()["delivered"] == len(found)
    return found, report


@pytest.fixture(params=sorted(BUILDERS))
def case(request: pytest.FixtureRequest, tmp_path: Path, rows: list[Row]) -> tuple[Path, Path, bytes]:
    bag = BUILDERS[request.param](tmp_path, rows)
    file = data_file(bag)
    return bag, file, file.read_bytes()


@CASES
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_bag_cut_off_anywhere_yields_only_recorded_messages_and_says_what_is_gone(
    case: tuple[Path, Path, bytes], rows: list[Row], share: float
) -> None:
    bag, file, whole = case
    file.write_bytes(whole[: int(share * len(whole))])
    found, report = try_read(bag)
    kept = set(found)
    assert [row[:3] for row in rows if row[:3] in kept] == found
    if report is not None and len(found) < len(rows):
        assert not report.intact


@CASES
@given(data=st.data())
def test_flipped_bits_and_zeroed_stretches_never_raise_anything_but_tether_errors(
    case: tuple[Path, Path, bytes], data: st.DataObject
) -> None:
    bag, file, whole = case
    broken = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8)):
        broken[at] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(whole) - 1))
        length = data.draw(st.sampled_from([1, 16, 512, 4096]))
        broken[at : at + length] = bytes(len(broken[at : at + length]))
    file.write_bytes(broken)
    found, _ = try_read(bag)
    times = [time for _, _, time in found]
    assert all(isinstance(time, int) for time in times)


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.ZSTD, CompressionType.LZ4])
def test_mcap_with_checksums_never_delivers_a_message_with_a_flipped_bit(
    compression: CompressionType, tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, compression, chunk_bytes=2048)
    whole = path.read_bytes()
    recorded = {row[3] for row in rows}
    for at in range(100, len(whole), max(1, len(whole) // 150)):
        broken = bytearray(whole)
        broken[at] ^= 0x10
        path.write_bytes(broken)
        with open_bag(path) as bag:
            assert {m.raw for m in bag.messages()} <= recorded


def test_every_whole_message_before_a_cut_is_kept_also_inside_of_a_chunk(tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, CompressionType.NONE, chunk_bytes=4096)
    whole = path.read_bytes()
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    chunk = summary.chunk_indexes[-1]
    before = sum(1 for row in rows if row[2] < chunk.message_start_time)
    inside = len(rows) - before
    path.write_bytes(whole[: chunk.chunk_start_offset + chunk.chunk_length // 2])
    found, report = try_read(path)
    assert before + inside // 2 - 1 <= len(found) < len(rows)
    assert found == [row[:3] for row in rows][: len(found)]
    assert report is not None and [loss.kind for loss in report.losses] == [LossKind.TRUNCATED]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_chunk_whose_checksum_is_wrong_is_named_with_its_messages_and_the_others_are_read(
    indexed: bool, tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows, CompressionType.NONE, chunk_bytes=4096)
    broken = bytearray(path.read_bytes())
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    second = summary.chunk_indexes[1]
    held = sum(1 for row in rows if second.message_start_time <= row[2] <= second.message_end_time)
    broken[second.chunk_start_offset + second.chunk_length // 2] ^= 1
    path.write_bytes(broken if indexed else broken[: -2 * MAGIC_SIZE])
    found, report = try_read(path)
    assert len(found) == len(rows) - held
    assert report is not None and report.lost_messages == held
    (loss,) = [loss for loss in report.losses if f"byte {second.chunk_start_offset}" in loss.where]
    assert (loss.kind, loss.messages) == (LossKind.DAMAGED, held if indexed else None)
    assert f"; {held} messages in it can be read and are left out" in loss.what


@pytest.mark.parametrize("kind", ["rosbag2-mcap", "rosbag2-sqlite"])
def test_what_a_cut_cost_is_counted_where_metadata_knows_how_much_there_was(
    kind: str, tmp_path: Path, rows: list[Row]
) -> None:
    bag = BUILDERS[kind](tmp_path, rows)
    file = data_file(bag)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    found, report = try_read(bag)
    assert report is not None and 0 < len(found) < len(rows)
    assert report.lost_messages == len(rows) - len(found)
    assert report.lost_uncounted == 0


def test_a_ros1_bag_cut_between_two_records_is_not_called_intact(tmp_path: Path, rows: list[Row]) -> None:
    """Its records can all be read; only the index that its header announces tells that there was more."""
    bag = BUILDERS["ros1-plain"](tmp_path, rows)
    with Reader(bag) as reader:
        ends = [info.pos for info in reader.chunk_infos]
    bag.write_bytes(bag.read_bytes()[: ends[1]])
    found, report = try_read(bag)
    assert report is not None and 0 < len(found) < len(rows)
    assert [loss.kind for loss in report.losses] == [LossKind.TRUNCATED]
