"""MCAP files, by way of the `mcap` library's records and `rosbags`' chunk reader.

A sound file is read through the index in its summary. Where that is missing, damaged or not enough (no chunk
index, channels not repeated), the records are walked from the start and the index is made anew; what stands
before a damage is kept, the readable beginning of a chunk that was cut off included. https://mcap.dev/spec
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from mcap.data_stream import ReadDataStream
from mcap.reader import FOOTER_SIZE, SeekingReader
from mcap.records import Chunk, ChunkIndex, Footer, Message
from mcap.stream_reader import MAGIC_SIZE, StreamReader
from mcap.summary import Summary
from rosbags.rosbag2.storage_mcap import ChunkInfo, msgsrc

from tether.bags.damage import DAMAGE, short_reason
from tether.bags.mcap_channels import Channels
from tether.bags.mcap_walk import RECORD_HEAD, Walk, before_damage, unpacks_to_too_much
from tether.bags.model import Block, RawRecord, StorageFile
from tether.bags.report import Loss, LossKind, LossLog

_TIME_LIMIT = 2**64
_HEAD_BYTES = 32
"""Of a packed chunk: enough for the head of a zstd or lz4 frame, which states what it unpacks to."""


def open_mcap(path: Path, name: str, log: LossLog) -> StorageFile:
    """Open one MCAP file. Nothing in a damaged file makes this raise; `log` tells what is lost."""
    file = path.open("rb")
    summary = _sound_summary(file, path.stat().st_size)
    if isinstance(summary, str):
        log.note(f"{name}: {summary}; read by walking its records")
        return Walk(file, path.stat().st_size, name, log).storage()
    return _indexed(file, name, summary, log)


def _sound_summary(file: IO[bytes], size: int) -> Summary | str:
    """The summary, if it is whole and enough to read every message by; otherwise the reason why not."""
    try:
        summary = SeekingReader(file, record_size_limit=size).get_summary()
        file.seek(size - FOOTER_SIZE - MAGIC_SIZE)
        footer = next(StreamReader(file, skip_magic=True).records)
    except DAMAGE:  # whatever the parser meets in damaged bytes means the same: no usable summary
        return "the file has no readable end"
    if summary is None or not isinstance(footer, Footer):
        return "the file has no index"
    if footer.summary_crc and footer.summary_crc != _summary_crc(file, footer, size):
        return "the checksum of the index is wrong"
    if not summary.chunk_indexes:
        return "the file has no index of chunks"
    stated = summary.statistics
    if stated is not None and stated.chunk_count != len(summary.chunk_indexes):
        return f"the index lists {len(summary.chunk_indexes)} of {stated.chunk_count} chunks"
    for chunk in summary.chunk_indexes:
        if not chunk.message_index_offsets:
            return "the index does not say which channels its chunks hold"
        if chunk.chunk_start_offset + chunk.chunk_length > size:
            return "the index points past the end of the file"
        if any(channel not in summary.channels for channel in chunk.message_index_offsets):
            return "the index does not repeat all channels"
    if any(c.schema_id and c.schema_id not in summary.schemas for c in summary.channels.values()):
        return "the index does not repeat all schemas"
    return summary


def _summary_crc(file: IO[bytes], footer: Footer, size: int) -> int:
    """CRC32 from the summary's start up to the checksum itself (the last 4 bytes before the magic)."""
    file.seek(footer.summary_start)
    return zlib.crc32(file.read(size - MAGIC_SIZE - 4 - footer.summary_start))


def _indexed(file: IO[bytes], name: str, summary: Summary, log: LossLog) -> StorageFile:
    channels = Channels()
    for record in (*summary.schemas.values(), *summary.channels.values()):
        channels.see(record)
    blocks = [
        Block(index.message_start_time, _chunk_loader(file, name, index, channels.index, log))
        for index in sorted(summary.chunk_indexes, key=lambda chunk: chunk.chunk_start_offset)
    ]
    recorded = None
    if summary.statistics is not None:
        counts = summary.statistics.channel_message_counts
        recorded = {topic: counts.get(channel, 0) for channel, topic in channels.index.items()}
    end_ns = max(chunk.message_end_time for chunk in summary.chunk_indexes)
    return StorageFile(channels.topics, blocks, file.close, recorded, end_ns)


def _chunk_loader(
    file: IO[bytes], name: str, index: ChunkIndex, topic_of: dict[int, int], log: LossLog
) -> Callable[[], list[RawRecord]]:
    info = ChunkInfo(
        index.message_start_time,
        index.message_end_time,
        index.chunk_start_offset,
        index.chunk_length,
        index.message_index_offsets,
        index.message_index_length,
        index.compression,
        index.compressed_size,
        index.uncompressed_size,
        {},
    )
    where = f"{name}: chunk at byte {index.chunk_start_offset}"

    expected = _indexed_count(index)

    def load() -> list[RawRecord]:
        records: list[RawRecord] = []
        why = "messages in it do not belong to any channel"
        try:
            file.seek(index.chunk_start_offset + index.chunk_length - index.compressed_size)
            head = file.read(min(index.compressed_size, _HEAD_BYTES))
            oversize = unpacks_to_too_much(index.compression, head, index.uncompressed_size)
            if oversize is not None:
                raise ValueError(oversize)
            # rosbags hands back whatever the map holds for a channel; here that is the topic's index.
            for time, _, topic, data in msgsrc(info, cast(Any, topic_of), 0, _TIME_LIMIT, cast(Any, file)):
                if data is not None:
                    records.append((time, cast(int, topic), data))
        except DAMAGE as error:
            records, readable = _before_damage(file, index, topic_of)
            why = short_reason(error) + readable
        first, last = index.message_start_time, index.message_end_time
        if records and (records[0][0] < first or records[-1][0] > last):
            records, why = (
                [r for r in records if first <= r[0] <= last],
                "log times outside of the chunk's span",
            )
        if len(records) < expected:
            log.add(Loss(LossKind.DAMAGED, where, why, expected - len(records), index.chunk_length))
        return records

    return load


def _before_damage(file: IO[bytes], index: ChunkIndex, topic_of: dict[int, int]) -> tuple[list[RawRecord], str]:
    """As `before_damage`, of the chunk that an index names; nothing where the two do not agree."""
    try:
        file.seek(index.chunk_start_offset + RECORD_HEAD)
        chunk = Chunk.read(ReadDataStream(file))
        if chunk.compression != index.compression:
            return [], ""
        records, readable = before_damage(chunk)
    except DAMAGE:  # the chunk's own head is damaged
        return [], ""
    met = [record for record in records if isinstance(record, Message) and record.channel_id in topic_of]
    return sorted([(m.log_time, topic_of[m.channel_id], m.data) for m in met], key=lambda kept: kept[0]), readable


def _indexed_count(index: ChunkIndex) -> int:
    """Messages in a chunk by the length of its index: 15 bytes for each channel and 16 for each message."""
    return (index.message_index_length - 15 * len(index.message_index_offsets)) // 16
