"""ROS 1 bags (version 2.0), by way of `rosbags`' reader; without an index they are walked by record."""

from __future__ import annotations

import bz2
import contextlib
import io
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import lz4.frame
from rosbags.interfaces import Connection, ConnectionExtRosbag1
from rosbags.rosbag1.reader import Chunk, ChunkInfo, Header, Reader, RecordType, read_bytes, read_uint32

from tether.bags.damage import DAMAGE, no_record, short_reason
from tether.bags.model import Block, Definition, DefinitionFormat, Encoding, RawRecord, StorageFile, TopicInfo
from tether.bags.report import Loss, LossKind, LossLog
from tether.errors import Fault, InvalidInputError

LOOSE_PER_BLOCK = 512
VERSION_LINE = re.compile(rb"#ROSBAG V(\d+)\.(\d+)\n")


def open_ros1(path: Path, name: str, log: LossLog) -> StorageFile:
    """Open one ROS 1 bag. Raises InvalidInputError for other versions and for encrypted bags."""
    _check_version(path, name)
    reader = Reader(path)
    try:
        reader.open()
    except DAMAGE as error:  # index absent or damaged: rosbags raises many kinds, and all mean "walk it"
        if "encryption" in str(error):
            fault = Fault(name, short_reason(error), "a bag that is not encrypted")
            raise InvalidInputError("ROS 1 bag", [fault], "decrypt it with `rosbag decrypt` first") from error
        log.note(f"{name}: {short_reason(error)} Read by walking its records")
        return _Walk(path, name, log).storage()
    if not reader.chunk_infos:
        reader.close()
        return _Walk(path, name, log).storage()
    with contextlib.suppress(*DAMAGE):  # the end of an index that rosbags can use, and this cannot, stays unknown
        _tell_rest(path, name, log)
    return _indexed(reader, name, log)


def _tell_rest(path: Path, name: str, log: LossLog) -> None:
    """Name what was joined on behind the index, which is the last part of a bag."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.readline(64)
        header = Header.read(file, RecordType.BAGHEADER)
        file.seek(header.get_uint64("index_pos"))
        for _ in range(header.get_uint32("conn_count") + header.get_uint32("chunk_count")):
            Header.read(file)
            file.seek(read_uint32(file), 1)
        end = file.tell()
    if end < size:
        what = f"{size - end} bytes after the end of the recording were not read"
        log.add(Loss(LossKind.DAMAGED, f"{name}: from byte {end}", what, None, size - end))


def _check_version(path: Path, name: str) -> None:
    with path.open("rb") as file:
        line = file.readline(64)
    match = VERSION_LINE.match(line)
    if match is None or match.groups() != (b"2", b"0"):
        fault = Fault(name, f"first line {line!r}", "#ROSBAG V2.0")
        raise InvalidInputError("ROS 1 bag", [fault], "convert older bags with `rosbag fix`")


def _topic(connection: Connection) -> TopicInfo:
    latching = connection.ext.latching if isinstance(connection.ext, ConnectionExtRosbag1) else None
    return TopicInfo(
        name=connection.topic,
        type=connection.msgtype,
        encoding=Encoding.ROS1,
        definition=Definition(DefinitionFormat.MSG, connection.msgdef.data),
        latched=bool(latching),
        encoding_name="ros1",
    )


def _indexed(reader: Reader, name: str, log: LossLog) -> StorageFile:
    index_of = {connection.id: i for i, connection in enumerate(reader.connections)}
    file = cast("BinaryIO", reader.bio)
    blocks = [
        Block(info.start_time, _chunk_loader(file, reader.chunks[info.pos], info, index_of, name, log))
        for info in reader.chunk_infos
        if info.connection_counts
    ]
    recorded = dict.fromkeys(index_of.values(), 0)
    for info in reader.chunk_infos:
        for connection, count in info.connection_counts.items():
            if connection in index_of:
                recorded[index_of[connection]] += count
    end_ns = max((info.end_time - 1 for info in reader.chunk_infos if info.connection_counts), default=None)
    return StorageFile([_topic(c) for c in reader.connections], blocks, reader.close, recorded, end_ns)


def _chunk_loader(
    file: BinaryIO, chunk: Chunk, info: ChunkInfo, index_of: dict[int, int], name: str, log: LossLog
) -> Callable[[], list[RawRecord]]:
    where = f"{name}: chunk at byte {info.pos}"
    expected = sum(info.connection_counts.values())

    def load() -> list[RawRecord]:
        records: list[RawRecord] = []
        why = "log times outside of the chunk's span, or fewer messages than the index says"
        try:
            file.seek(chunk.datapos)
            plain = chunk.decompressor(read_bytes(file, chunk.datasize))
            for header, data in _messages(io.BytesIO(plain), len(plain)):
                topic, time = index_of[header.get_uint32("conn")], header.get_time("time")
                if info.start_time <= time <= info.end_time:
                    records.append((time, topic, data))
        except DAMAGE as error:
            why = short_reason(error)
        if len(records) < expected:
            log.add(Loss(LossKind.DAMAGED, where, why, expected - len(records)))
        records.sort(key=_log_time)
        return records

    return load


def _messages(stream: BinaryIO, size: int) -> Iterator[tuple[Header, bytes]]:
    """Message records of a chunk's plain bytes; other records in it are passed over."""
    while stream.tell() < size:
        header = Header.read(stream)
        data = read_bytes(stream, read_uint32(stream))
        if header.get_uint8("op") == RecordType.MSGDATA:
            yield header, data


class _Walk:
    """Reads a bag that has no usable index from its first record to its last readable one."""

    def __init__(self, path: Path, name: str, log: LossLog) -> None:
        self._size = path.stat().st_size
        self._file: BinaryIO = path.open("rb")
        self._reader = Reader(path)
        self._name = name
        self._log = log
        self._topics: list[TopicInfo] = []
        self._index_of: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._blocks: list[Block] = []
        self._loose: list[RawRecord] = []
        self._end_ns: int | None = None

    def storage(self) -> StorageFile:
        """Walk as far as the file can be read. Raises InvalidInputError where that is not even one record."""
        self._file.readline(64)
        first = begin = self._file.tell()
        try:
            index_at = Header.read(self._file, RecordType.BAGHEADER).get_uint64("index_pos")
            self._file.seek(begin)
            while begin < self._size:
                self._record()
                begin = self._file.tell()
            if not 0 < index_at <= self._size:
                raise EOFError("the file ends between two records; its index was never written, or is cut off")
        except DAMAGE as error:  # everything before `begin` has been taken
            if begin == first:
                self._file.close()
                raise no_record(self._name, self._size, error) from error
            lost = self._size - begin
            where = f"{self._name}: from byte {begin}"
            self._log.add(Loss(LossKind.TRUNCATED, where, short_reason(error), None, lost))
        self._flush()
        return StorageFile(self._topics, self._blocks, self._file.close, dict(self._counts), self._end_ns)

    def _record(self) -> None:
        begin = self._file.tell()
        header = Header.read(self._file)
        kind = header.get_uint8("op")
        if kind == RecordType.CONNECTION:
            self._file.seek(begin)
            self._connection(self._file)
            return
        size = read_uint32(self._file)
        if kind == RecordType.CHUNK:
            self._chunk(begin, header.get_string("compression"), size)
            return
        data = read_bytes(self._file, size)
        if kind == RecordType.MSGDATA:
            self._take(self._loose, header, data)
            if len(self._loose) >= LOOSE_PER_BLOCK:
                self._flush()

    def _connection(self, stream: BinaryIO) -> None:
        """Have rosbags read the connection record at the stream's position."""
        self._reader.bio = stream
        connection = self._reader.read_connection()
        if connection.id not in self._index_of:
            self._index_of[connection.id] = len(self._topics)
            self._topics.append(_topic(connection))

    def _chunk(self, begin: int, compression: str, size: int) -> None:
        at = self._file.tell()
        data = self._file.read(size)
        records: list[RawRecord] = []
        try:
            self._walk_chunk(io.BytesIO(_decompress(compression, data)), records)
            if len(data) < size:
                raise EOFError(f"the chunk has {len(data)} of {size} bytes")
        except DAMAGE as error:  # what stands before the damage is kept; the chunk's length leads to the next
            if len(data) < size:
                raise
            where = f"{self._name}: chunk at byte {begin}"
            what = f"{short_reason(error)}; the {len(records)} messages before it are kept"
            self._log.add(Loss(LossKind.DAMAGED, where, what, None, size))
        finally:
            if records:
                start_ns = min(record[0] for record in records)
                self._blocks.append(Block(start_ns, self._reload(at, size, compression, len(records))))

    def _walk_chunk(self, stream: io.BytesIO, records: list[RawRecord]) -> None:
        size = len(stream.getbuffer())
        while stream.tell() < size:
            begin = stream.tell()
            header = Header.read(stream)
            if header.get_uint8("op") == RecordType.CONNECTION:
                stream.seek(begin)
                self._connection(stream)
                continue
            data = read_bytes(stream, read_uint32(stream))
            if header.get_uint8("op") == RecordType.MSGDATA:
                self._take(records, header, data)

    def _take(self, records: list[RawRecord], header: Header, data: bytes) -> None:
        topic = self._index_of[header.get_uint32("conn")]
        time = header.get_time("time")
        records.append((time, topic, data))
        self._counts[topic] = self._counts.get(topic, 0) + 1
        self._end_ns = time if self._end_ns is None else max(self._end_ns, time)

    def _reload(self, at: int, size: int, compression: str, count: int) -> Callable[[], list[RawRecord]]:
        def load() -> list[RawRecord]:
            self._file.seek(at)
            plain = _decompress(compression, self._file.read(size))
            records = [
                (header.get_time("time"), self._index_of[header.get_uint32("conn")], data)
                for header, data in islice(_messages(io.BytesIO(plain), len(plain)), count)
            ]
            records.sort(key=_log_time)
            return records

        return load

    def _flush(self) -> None:
        records, self._loose = sorted(self._loose, key=_log_time), []
        if records:
            self._blocks.append(Block(records[0][0], lambda: records))


def _decompress(compression: str, data: bytes) -> bytes:
    """A chunk's plain bytes; as many as there are, where the data is cut off."""
    if compression == "none":
        return data
    if compression == "bz2":
        return bz2.BZ2Decompressor().decompress(data)
    if compression == "lz4":
        return cast(bytes, lz4.frame.LZ4FrameDecompressor().decompress(data))
    raise ValueError(f"chunk compression {compression!r} is not supported")


def _log_time(record: RawRecord) -> int:
    return record[0]
