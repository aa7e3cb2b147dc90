"""One MCAP file being recorded: the `mcap` library's writer on a file whose sound length is always known."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

from mcap.writer import CompressionType, Writer
from rosbags.interfaces import Qos

from tether.bags.metadata import FileEntry
from tether.bags.qos import qos_to_text

_LOG = logging.getLogger(__name__)


class _Unbuffered:
    """A file that hands every write to the operating system at once and whole, or raises OSError."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            written = self.file.write(rest)
            self.size += written
            rest = rest[written:]
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing waits."""


class McapOutput:
    """Adds messages to a new MCAP file in chunks. Every method may raise OSError, after which only `abandon` is of use.

    start_ns, end_ns: span of the log times so far. flushed: messages that a kill can no longer take away.
    """

    def __init__(self, path: Path, chunk_bytes: int, compression: CompressionType, library: str) -> None:
        self.path = path
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self._stream = _Unbuffered(self._open(path))
        stream = cast("IO[bytes]", self._stream)
        self._writer = Writer(stream, chunk_size=chunk_bytes, compression=compression)
        self._writer.start(profile="ros2", library=library)
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._messages: Counter[str] = Counter()
        self._sound = Counter(self._messages)
        self._sound_size = self._stream.size

    def _open(self, path: Path) -> BinaryIO:
        return cast(BinaryIO, path.open("xb", buffering=0))

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._stream.size

    @property
    def flushed(self) -> int:
        """Messages that are with the operating system."""
        return sum(self._sound.values())

    def begin(self, serialized_metadata: str) -> None:
        """Keep what is known of the recording before its first message, as rosbag2 does; what `finish` writes comes
        later and holds. Where nothing is finished, `ros2 bag reindex` has custom data and distribution from here."""
        self._writer.add_metadata("rosbag2", {"serialized_metadata": serialized_metadata})
        self._mark_sound()

    def add(
        self,
        topic: str,
        type_name: str,
        definition: str,
        type_hash: str,
        qos: Sequence[Qos],
        raw: bytes,
        log_time_ns: int,
        publish_time_ns: int,
    ) -> None:
        """Add one message to the chunk in progress, declaring its topic and type where they are new to this file."""
        if topic not in self._channels:
            if type_name not in self._schemas:
                self._schemas[type_name] = self._writer.register_schema(type_name, "ros2msg", definition.encode())
            about = {"offered_qos_profiles": qos_to_text(qos), "topic_type_hash": type_hash}
            self._channels[topic] = self._writer.register_channel(topic, "cdr", self._schemas[type_name], about)
        size = self._stream.size
        sequence = self._messages[topic] % 2**32
        self._writer.add_message(self._channels[topic], log_time_ns, raw, publish_time_ns, sequence)
        self._messages[topic] += 1
        self.start_ns = log_time_ns if self.start_ns is None else min(self.start_ns, log_time_ns)
        self.end_ns = log_time_ns if self.end_ns is None else max(self.end_ns, log_time_ns)
        if self._stream.size > size:  # the library closed the chunk
            self._mark_sound()

    def flush(self) -> None:
        """Close the chunk in progress and hand it to the operating system."""
        self._writer.flush()  # type: ignore[no-untyped-call]
        self._mark_sound()

    def finish(self, serialized_metadata: str) -> None:
        """Write the index and close. serialized_metadata: what metadata.yaml says, kept in the file as rosbag2 does."""
        self._writer.flush()  # type: ignore[no-untyped-call]
        self._writer.add_metadata("rosbag2", {"serialized_metadata": serialized_metadata})
        self._writer.finish()  # type: ignore[no-untyped-call]
        self._mark_sound()
        os.fsync(self._stream.file.fileno())
        self._stream.file.close()

    def abandon(self) -> Counter[str]:
        """After a fault: cut the file back to its last whole chunk and close it. Returns the messages lost by topic.

        Of use even where the disk refuses that too (then readers have to look past a torn chunk), or after `finish`.
        """
        file = self._stream.file
        try:
            if not file.closed:
                with contextlib.closing(file):
                    file.truncate(self._sound_size)
        except OSError as error:
            _LOG.warning("%s: the torn end is still there (%s)", self.path, error.strerror or error)
        lost = self._messages - self._sound
        self._messages = Counter(self._sound)
        return lost

    def entry(self) -> FileEntry:
        """The file as metadata.yaml lists it."""
        return FileEntry(self.path.name, self.start_ns, self.end_ns, sum(self._messages.values()))

    def _mark_sound(self) -> None:
        self._sound = Counter(self._messages)
        self._sound_size = self._stream.size
