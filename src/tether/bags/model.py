"""What the bag reader hands over, and what the readers of the three file kinds hand to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rosbags.interfaces import Qos


class Encoding(str, Enum):
    """How a message's bytes are laid out."""

    CDR = "cdr"
    """ROS 2: four bytes of encapsulation, then aligned fields."""
    ROS1 = "ros1"
    """ROS 1: packed little-endian fields."""
    OTHER = "other"
    """Something that is no ROS message (JSON, protobuf, …); counted, never delivered."""


class DefinitionFormat(str, Enum):
    """Language of a message definition carried by a bag."""

    NONE = ""
    MSG = "msg"
    IDL = "idl"


@dataclass(frozen=True)
class Definition:
    """A message definition as the bag carries it, nested types concatenated; NONE where it carries none."""

    format: DefinitionFormat = DefinitionFormat.NONE
    text: str = ""


@dataclass(frozen=True)
class TopicInfo:
    """One topic of a bag.

    type: full name with `/msg/`, whatever the bag wrote. qos: profiles offered by the recorded publishers,
    empty where the bag has none. latched: ROS 1's latching flag.
    """

    name: str
    type: str
    encoding: Encoding
    definition: Definition = Definition()
    qos: tuple[Qos, ...] = ()
    latched: bool = False
    encoding_name: str = ""


RawRecord = tuple[int, int, bytes]
"""(log_time_ns, index into the file's topics, message bytes)."""


@dataclass(frozen=True)
class Block:
    """A run of messages that is read at once: an MCAP or ROS 1 chunk, some rows of a database.

    start_ns: no message of the block is earlier. load: returns the block's records in log-time order, ties in
    file order; it never raises for damaged data but writes what was lost to the log and returns the rest.
    """

    start_ns: int
    load: Callable[[], list[RawRecord]]


@dataclass
class StorageFile:
    """One opened file of a bag.

    recorded: messages that the file itself claims to hold per topic index, None where it does not say.
    stated: the same by a count that does not come from finding them (statistics, message indexes); {} for none.
    end_ns: latest log time as far as the file's index tells, None where only reading will.
    """

    topics: list[TopicInfo]
    blocks: list[Block]
    close: Callable[[], None]
    recorded: dict[int, int] | None = None
    end_ns: int | None = None
    stated: dict[int, int] = field(default_factory=dict)


class BagMessage:
    """One message. `raw` is as recorded (per-message compression undone); `message` is deserialised on first
    use.

    topic, type, encoding, log_time_ns (receive time), header_stamp_ns (of a leading std_msgs/Header, else
    None).
    """

    __slots__ = ("_decode", "_message", "encoding", "header_stamp_ns", "log_time_ns", "raw", "topic", "type")

    def __init__(
        self,
        topic: str,
        type_: str,
        encoding: Encoding,
        log_time_ns: int,
        header_stamp_ns: int | None,
        raw: bytes,
        decode: Callable[[bytes], Any],
        message: Any = None,
    ) -> None:
        self.topic = topic
        self.type = type_
        self.encoding = encoding
        self.log_time_ns = log_time_ns
        self.header_stamp_ns = header_stamp_ns
        self.raw = raw
        self._decode = decode
        self._message = message

    @property
    def message(self) -> Any:
        """The message, with the fields of the bag's own definition. Raises CorruptMessageError."""
        if self._message is None:
            self._message = self._decode(self.raw)
        return self._message

    def __repr__(self) -> str:
        return f"BagMessage({self.topic!r}, {self.type!r}, {self.log_time_ns} ns, {len(self.raw)} bytes)"
