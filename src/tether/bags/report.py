"""What a bag holds and what of it was lost, for people (`table`) and for machines (`to_json`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tether.bags.playable import visible
from tether.errors import TetherError


class BagError(TetherError):
    """A bag, or a part of one, that cannot be used."""


class CorruptMessageError(BagError):
    """Bytes of one message that do not fit its type."""


class LossKind(str, Enum):
    """Why something that should be in a bag cannot be replayed."""

    MISSING_FILE = "missing file"
    UNREADABLE_FILE = "unreadable file"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    CORRUPT_MESSAGE = "corrupt message"
    UNKNOWN_TYPE = "unknown type"
    UNKNOWN_ENCODING = "unknown encoding"


@dataclass(frozen=True)
class Loss:
    """One thing that was lost. messages, size_bytes: how much, None where it cannot be known."""

    kind: LossKind
    where: str
    what: str
    messages: int | None = None
    size_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind.value,
            "where": self.where,
            "what": self.what,
            "messages": self.messages,
            "size_bytes": self.size_bytes,
        }


class LossLog:
    """Collects losses and notes of one bag. The same place reported again replaces what was said before,
    so that reading a bag twice does not count its losses twice."""

    def __init__(self) -> None:
        self._losses: dict[tuple[LossKind, str], Loss] = {}
        self._notes: dict[str, None] = {}

    def add(self, loss: Loss) -> None:
        """Remember one loss."""
        self._losses[(loss.kind, loss.where)] = loss

    def note(self, text: str) -> None:
        """Remember something that was odd but cost no message."""
        self._notes[text] = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """In the order in which they were first met."""
        return tuple(self._losses.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """In the order in which they were first met."""
        return tuple(self._notes)


@dataclass(frozen=True)
class FileReport:
    """One file of the bag. format: what its first bytes say; compression: of the whole file, or empty."""

    name: str
    size_bytes: int
    format: str
    compression: str = ""


@dataclass(frozen=True)
class TopicReport:
    """One topic. recorded: count that file or metadata claim, None where neither does; delivered: read and
    sound."""

    name: str
    type: str
    encoding: str
    recorded: int | None
    delivered: int


@dataclass(frozen=True)
class Report:
    """Everything known about a bag. `complete`: the bag has been read through, so nothing is left to be
    found.

    lost_messages: sum over losses that can be counted; `lost_uncounted` of them cannot.
    """

    path: str
    storage: str
    files: Sequence[FileReport]
    topics: Sequence[TopicReport]
    losses: Sequence[Loss]
    notes: Sequence[str]
    start_ns: int | None
    end_ns: int | None
    complete: bool
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def delivered(self) -> int:
        """Messages read and sound."""
        return sum(topic.delivered for topic in self.topics)

    @property
    def lost_messages(self) -> int:
        """Messages known to be lost."""
        return sum(loss.messages or 0 for loss in self.losses)

    @property
    def lost_uncounted(self) -> int:
        """Losses whose number of messages cannot be known."""
        return sum(loss.messages is None for loss in self.losses)

    @property
    def intact(self) -> bool:
        """Nothing was lost, as far as the bag has been read."""
        return not self.losses

    @property
    def lost(self) -> str:
        """How much was lost, in words."""
        if not self.losses:
            return "nothing lost"
        if not self.lost_uncounted:
            return f"{self.lost_messages} messages lost"
        return (
            f"at least {self.lost_messages} messages lost"
            if self.lost_messages
            else "an unknown number of messages lost"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "path": self.path,
            "storage": self.storage,
            "complete": self.complete,
            "intact": self.intact,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "delivered": self.delivered,
            "lost_messages": self.lost_messages,
            "lost_uncounted": self.lost_uncounted,
            "files": [vars(file) for file in self.files],
            "topics": [vars(topic) for topic in self.topics],
            "losses": [loss.to_json() for loss in self.losses],
            "notes": list(self.notes),
            **self.extra,
        }

    def table(self) -> str:
        """A table for people; control characters in names are escaped."""
        lines = [f"{self.path}: {self.storage}, {_span(self.start_ns, self.end_ns)}"]
        for file in self.files:
            packed = f", {file.compression} file compression" if file.compression else ""
            lines.append(f"  file  {file.name}  {file.size_bytes:,} bytes, {file.format}{packed}")
        rows = [("topic", "type", "encoding", "recorded", "readable")]
        for topic in self.topics:
            recorded = "?" if topic.recorded is None else str(topic.recorded)
            rows.append((visible(topic.name), topic.type, topic.encoding, recorded, str(topic.delivered)))
        lines += _columns(rows) if len(rows) > 1 else ["  no topics"]
        lines.append(f"  {self.delivered} messages readable" + ("" if self.complete else " so far (not read through)"))
        for loss in self.losses:
            count = "an unknown number of messages" if loss.messages is None else f"{loss.messages} messages"
            size = "" if loss.size_bytes is None else f", {loss.size_bytes:,} bytes"
            lines.append(f"  lost  {loss.kind.value}: {loss.where}: {loss.what} ({count}{size})")
        lines.append(f"  {self.lost}")
        lines += [f"  note  {note}" for note in self.notes]
        return "\n".join(visible(line) for line in lines)


def _span(start_ns: int | None, end_ns: int | None) -> str:
    if start_ns is None or end_ns is None:
        return "no messages"
    return f"{(end_ns - start_ns) / 1e9:.3f} s from {start_ns} ns"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
