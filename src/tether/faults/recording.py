"""What the probe writes down of a run, and how the campaign reads it while it grows.

A recording is a file of records: steady time of arrival (int64, ns), index in HEARD (uint8), number of bytes (uint32),
and the message's bytes as they came. It is apart from the graph's own recorder on purpose.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tether import topics
from tether.topics import Kind, Topic

HEARD: tuple[Topic, ...] = (
    topics.JOINT_COMMAND,
    topics.CMD_VEL,
    topics.VERDICT,
    topics.EXECUTED,
    topics.MEASURES,
    topics.EPISODE_START,
    topics.EPISODE_END,
    topics.EVENTS,
)
OBSERVER_LATE = Topic("observer_late", "", Kind.STAGE)
"""No topic: says that the probe itself had to wait for the processor until then, for int64 ns. What came meanwhile was
taken too late."""
_KINDS = (*HEARD, OBSERVER_LATE)
_HEAD = struct.Struct("<qBI")
_INDEX = {topic.name: index for index, topic in enumerate(_KINDS)}


@dataclass(frozen=True)
class Record:
    """A message and when the probe took it, ns of the steady clock."""

    at_ns: int
    topic: Topic
    raw: bytes


def write_record(file: BinaryIO, at_ns: int, topic: Topic, raw: bytes) -> None:
    """Add one record."""
    file.write(_HEAD.pack(at_ns, _INDEX[topic.name], len(raw)) + raw)


def write_late(file: BinaryIO, at_ns: int, late_ns: int) -> None:
    """Say that the probe was late."""
    write_record(file, at_ns, OBSERVER_LATE, late_ns.to_bytes(8, "little"))


class Tail:
    """Reads a recording from where it left off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[Record]:
        """Complete records since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        at = 0
        while at + _HEAD.size <= len(data):
            at_ns, index, size = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + size
            if end > len(data):
                break
            yield Record(at_ns, _KINDS[index], data[at + _HEAD.size : end])
            at = end
            self._offset += _HEAD.size + size
