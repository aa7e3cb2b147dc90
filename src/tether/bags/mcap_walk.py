"""Reading an MCAP file that has no usable index: record by record, keeping whatever stands before a damage."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Chunk, McapRecord, Message, Statistics
from mcap.stream_reader import MAGIC_SIZE, StreamReader, breakup_chunk

from tether.bags.damage import DAMAGE, no_record, short_reason
from tether.bags.mcap_channels import Channels
from tether.bags.model import Block, RawRecord, StorageFile
from tether.bags.report import Loss, LossKind, LossLog

LOOSE_PER_BLOCK = 512
"""Messages outside of chunks are read in runs of this many."""
RECORD_HEAD = 9
"""Opcode (1 byte) and length (8 bytes) before every record."""
FIRST_PRIVATE_OPCODE = 0x80
"""Opcodes from here on are for applications; a reader passes over them."""
MAX_SALVAGE_BYTES = 256 * 2**20
MAX_CHUNK_BYTES = 256 * 2**20
"""A packed chunk that unpacks to more than this is not unpacked; recorders write chunks of some megabytes."""
SALVAGE_STEP_BYTES = 4096
"""Small, because zstd can make 2**15 times as much of it at once."""
_TAKEN = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK, Opcode.STATISTICS)
_MESSAGE_HEAD = struct.Struct("<HIQQ")
"""Channel, sequence number, log time and publish time before a message's data."""
_DATA_END_BYTES, _FOOTER_BYTES = 4, 20


@dataclass
class _Loose:
    """A run of messages outside of chunks. spans: first byte and first byte behind of each, its head left out."""

    start_ns: int
    spans: list[tuple[int, int]] = field(default_factory=list)


class Walk:
    """Walks the records of a file that has no usable index."""

    def __init__(self, file: IO[bytes], size: int, name: str, log: LossLog) -> None:
        self._file = file
        self._size = size
        self._name = name
        self._log = log
        self._channels = Channels()
        self._blocks: list[Block] = []
        self._loose: _Loose | None = None
        self._counts: dict[int, int] = {}
        self._ends_ns: dict[int, int] = {}
        self._stated: dict[int, int] = {}
        self._indexed: dict[int, int] = {}
        self._data_ended = False

    def storage(self) -> StorageFile:
        """Walk as far as the file can be read. Raises InvalidInputError where that is not even one record."""
        begin = MAGIC_SIZE
        try:
            while (end := self._record(begin)) is not None:
                begin = end
        except DAMAGE as error:
            if self._data_ended:  # what follows the messages is an index, which is not used here
                self._log.note(f"{self._name}: damaged behind its last message, from byte {begin}")
            else:
                self._lost_from(begin, error)
        self._finish_loose()
        topic_of = self._channels.index
        orphans = sum(count for channel, count in self._counts.items() if channel not in topic_of)
        if orphans:
            where = f"{self._name}: messages of channels that were never declared"
            self._log.add(Loss(LossKind.DAMAGED, where, "their topic and type are unknown", orphans))
        end_ns = max((time for channel, time in self._ends_ns.items() if channel in topic_of), default=None)
        counts = {topic: self._counts[channel] for channel, topic in topic_of.items() if channel in self._counts}
        claims = {channel: self._claimed(channel) for channel in topic_of}
        stated = {topic_of[channel]: count for channel, count in claims.items() if count}
        return StorageFile(self._channels.topics, self._blocks, self._file.close, counts, end_ns, stated)

    def _claimed(self, channel: int) -> int:
        """Messages of a channel by the file's statistics, or else by the indexes behind its chunks."""
        return self._stated.get(channel, self._indexed.get(channel, 0))

    def _record(self, begin: int) -> int | None:
        """Take the record at byte `begin` and return where the next one begins; None at the end of the data."""
        self._file.seek(begin)
        head = self._file.read(RECORD_HEAD)
        if len(head) < RECORD_HEAD:
            raise EOFError("the end of the file was never written")
        kind, length = head[0], int.from_bytes(head[1:], "little")
        end = begin + RECORD_HEAD + length
        if kind == Opcode.FOOTER and length == _FOOTER_BYTES:
            self._tell_rest(end + MAGIC_SIZE)
            return None
        if kind == 0:
            raise ValueError("no record begins here")
        if end > self._size:
            raise EOFError(f"a record of {length} bytes is cut off after {self._size - begin - RECORD_HEAD}")
        where = f"{self._name}: record at byte {begin}"
        if kind == Opcode.DATA_END and length == _DATA_END_BYTES:
            self._data_ended = True
        elif kind == Opcode.MESSAGE_INDEX and not self._data_ended:
            self._take_index(self._file.read(length))
        elif kind == Opcode.FOOTER or Opcode.DATA_END <= kind < FIRST_PRIVATE_OPCODE:
            self._log.add(Loss(LossKind.DAMAGED, where, f"a record of unknown kind 0x{kind:02x}", None, length))
        elif kind in _TAKEN:
            try:
                record = next(_parse(head + self._file.read(length)))
            except DAMAGE as error:
                self._log.add(Loss(LossKind.DAMAGED, where, short_reason(error), None, length))
            else:
                self._take(record, begin, end)
        return end

    def _take(self, record: McapRecord, begin: int, end: int) -> None:
        if isinstance(record, Chunk):
            self._finish_loose()
            self._take_chunk(record, begin)
        elif isinstance(record, Message):
            if self._loose is None:
                self._loose = _Loose(record.log_time)
            self._loose.start_ns = min(self._loose.start_ns, record.log_time)
            self._loose.spans.append((begin + RECORD_HEAD, end))
            self._count(record)
            if len(self._loose.spans) >= LOOSE_PER_BLOCK:
                self._finish_loose()
        elif isinstance(record, Statistics):
            if sum(record.channel_message_counts.values()) == record.message_count:  # or else they are damaged, too
                self._stated = dict(record.channel_message_counts)
        else:
            self._channels.see(record)

    def _take_index(self, data: bytes) -> None:
        """Count what a chunk's message index lists: channel (2 bytes), length (4), then 16 bytes for each message."""
        channel, listed = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:6], "little")
        if listed == len(data) - 6 and listed % 16 == 0:
            self._indexed[channel] = self._indexed.get(channel, 0) + listed // 16

    def _tell_rest(self, end: int) -> None:
        """Name what was joined on behind the recording."""
        if end < self._size:
            what = f"{self._size - end} bytes after the end of the recording were not read"
            self._log.add(Loss(LossKind.DAMAGED, f"{self._name}: from byte {end}", what, None, self._size - end))

    def _count(self, message: Message) -> None:
        channel = message.channel_id
        self._counts[channel] = self._counts.get(channel, 0) + 1
        self._ends_ns[channel] = max(self._ends_ns.get(channel, 0), message.log_time)

    def _take_chunk(self, chunk: Chunk, begin: int) -> None:
        records = _chunk_records(chunk, f"{self._name}: chunk at byte {begin}", self._log)
        times = []
        for record in records:
            self._channels.see(record)
            if isinstance(record, Message):
                self._count(record)
                times.append(record.log_time)
        if times:
            self._blocks.append(Block(min(times), self._reload_chunk(begin)))

    def _reload_chunk(self, begin: int) -> Callable[[], list[RawRecord]]:
        def load() -> list[RawRecord]:
            self._file.seek(begin + RECORD_HEAD)
            chunk = Chunk.read(ReadDataStream(self._file))
            return self._raw(_chunk_records(chunk, f"{self._name}: chunk at byte {begin}", self._log))

        return load

    def _finish_loose(self) -> None:
        run, self._loose = self._loose, None
        if run is None:
            return

        def load() -> list[RawRecord]:
            raw = []
            for begin, end in run.spans:
                self._file.seek(begin)
                channel, _, time, _ = _MESSAGE_HEAD.unpack(self._file.read(_MESSAGE_HEAD.size))
                if channel in self._channels.index:
                    data = self._file.read(end - begin - _MESSAGE_HEAD.size)
                    raw.append((time, self._channels.index[channel], data))
            raw.sort(key=_log_time)
            return raw

        self._blocks.append(Block(run.start_ns, load))

    def _raw(self, records: Any) -> list[RawRecord]:
        raw = []
        for record in records:
            if isinstance(record, Message) and record.channel_id in self._channels.index:
                raw.append((record.log_time, self._channels.index[record.channel_id], record.data))
        raw.sort(key=_log_time)
        return raw

    def _lost_from(self, begin: int, error: Exception) -> None:
        """The file ends, or makes no sense, at `begin`; keep what a chunk that was cut off still shows."""
        saved = self._salvage(begin)
        if begin == MAGIC_SIZE and not saved:
            self._file.close()
            raise no_record(self._name, self._size, error) from error
        if saved:
            self._blocks.append(Block(saved[0][0], lambda: saved))
        lost = self._size - begin
        kept = f"; {len(saved)} messages from its last, incomplete chunk are kept" if saved else ""
        where = f"{self._name}: from byte {begin}"
        self._log.add(Loss(LossKind.TRUNCATED, where, f"{short_reason(error)}{kept}", None, lost))

    def _salvage(self, begin: int) -> list[RawRecord]:
        self._file.seek(begin)
        head = self._file.read(RECORD_HEAD)
        if len(head) < RECORD_HEAD or head[0] != Opcode.CHUNK:
            return []
        try:
            chunk = Chunk.read(ReadDataStream(io.BytesIO(self._file.read(MAX_SALVAGE_BYTES))))
            records = _in_span(chunk, beginning_of(chunk))
        except DAMAGE:  # the cut is in the chunk's own head, or the head is nonsense: nothing to save
            return []
        for record in records:
            self._channels.see(record)
            if isinstance(record, Message):
                self._count(record)
        return self._raw(records)


def _chunk_records(chunk: Chunk, where: str, log: LossLog) -> list[McapRecord]:
    """A whole chunk's records. A damaged chunk whose checksum is wrong yields none, for then nothing in it
    can be trusted; one that carries no checksum yields what stands before the damage."""
    size = len(chunk.data)
    if chunk.compression not in ("", "zstd", "lz4"):
        log.add(Loss(LossKind.DAMAGED, where, f"compression {chunk.compression!r} is not supported", None, size))
        return []
    if (oversize := unpacks_to_too_much(chunk.compression, chunk.data, chunk.uncompressed_size)) is not None:
        log.add(Loss(LossKind.DAMAGED, where, oversize, None, size))
        return []
    try:
        return breakup_chunk(chunk, validate_crc=True)
    except DAMAGE as error:  # a damaged chunk is skipped: its length still leads to the next record
        records, readable = before_damage(chunk)
        log.add(Loss(LossKind.DAMAGED, where, short_reason(error) + readable, None, size))
        return records


def before_damage(chunk: Chunk) -> tuple[list[McapRecord], str]:
    """Records before the damage of a damaged chunk, and what becomes of the messages among them, in words.

    No records of a chunk with a checksum: it is wrong, and does not say where.
    """
    records = _in_span(chunk, beginning_of(chunk))
    count = sum(isinstance(record, Message) for record in records)
    if chunk.uncompressed_crc:
        said = f"; {count} messages in it can be read and are left out: its checksum does not say which are sound"
        return [], said if count else ""
    return records, f"; the {count} messages before it are kept" if count else ""


def unpacks_to_too_much(compression: str, data: bytes, stated: int) -> str | None:
    """Why a chunk is not unpacked: by its record (`stated`) or its own head it has more than MAX_CHUNK_BYTES."""
    if compression == "":
        return None
    with contextlib.suppress(*DAMAGE):  # no readable head: unpacking it will tell
        if compression == "zstd":
            stated = max(stated, zstandard.frame_content_size(data))
        elif compression == "lz4":
            stated = max(stated, lz4.frame.get_frame_info(data)["content_size"])
    if stated <= MAX_CHUNK_BYTES:
        return None
    return f"it would unpack to {stated:,} bytes, more than the limit of {MAX_CHUNK_BYTES:,}"


def _in_span(chunk: Chunk, records: Iterator[McapRecord]) -> list[McapRecord]:
    first, last = chunk.message_start_time, chunk.message_end_time
    return [r for r in records if not isinstance(r, Message) or first <= r.log_time <= last]


def beginning_of(chunk: Chunk) -> Iterator[McapRecord]:
    """Records at the beginning of a chunk whose data is cut off or damaged further on."""
    plain = bytearray()
    feed: Callable[[bytes], bytes] = bytes
    if chunk.compression == "zstd":
        feed = zstandard.ZstdDecompressor().decompressobj().decompress
    elif chunk.compression == "lz4":
        feed = lz4.frame.LZ4FrameDecompressor().decompress
    for at in range(0, len(chunk.data), SALVAGE_STEP_BYTES):
        try:
            plain += feed(chunk.data[at : at + SALVAGE_STEP_BYTES])
        except DAMAGE:  # the compressed stream breaks here; the caller reports the damage
            break
        if len(plain) > MAX_CHUNK_BYTES:
            break
    return _records(bytes(plain))


def _parse(data: bytes) -> Iterator[McapRecord]:
    return StreamReader(io.BytesIO(data), skip_magic=True, emit_chunks=True, record_size_limit=len(data)).records


def _records(data: bytes) -> Iterator[McapRecord]:
    """Records until the data ends or stops making sense; whoever calls has logged the damage already."""
    try:
        yield from _parse(data)
    except DAMAGE:
        return


def _log_time(record: RawRecord) -> int:
    return record[0]
