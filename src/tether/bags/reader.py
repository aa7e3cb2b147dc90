"""Reading bags of every kind, sound or broken, through one face.

`open_bag(path)` gives a `Bag`; `bag.messages()` yields everything readable in log-time order; `bag.report()`
says what there is and what was lost. Broken bags never raise while they are read: what cannot be had is
counted and named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.typesys.store import Typestore

from tether import codec
from tether.bags.definitions import ResolvedType, TypeResolver
from tether.bags.files import OpenFile, open_file
from tether.bags.layout import Layout, lay_out
from tether.bags.model import BagMessage, Block, DefinitionFormat, Encoding, RawRecord, TopicInfo
from tether.bags.payload import header_stamp_ns, unpacked
from tether.bags.playable import MAX_CLOCK_NS, is_topic_name, played_names
from tether.bags.report import (
    BagError,
    CorruptMessageError,
    FileReport,
    Loss,
    LossKind,
    LossLog,
    Report,
    TopicReport,
)
from tether.bags.sniff import FileFormat
from tether.errors import Fault, InvalidInputError

_BLOCKS_TRIED = 8
"""Blocks looked through for a first message of each topic whose definition is not the store's."""


@dataclass
class _Tally:
    """Counts of one pass over the bag. `through`: topics read from start to end; `whole`: all of them."""

    delivered: dict[int, int]
    corrupt: dict[int, tuple[int, str]]
    unknown: dict[int, int]
    whole: bool = False
    disordered: int = 0
    beyond_clock: int = 0
    through: frozenset[int] = frozenset()

    def met(self, topic: int) -> int:
        """Messages met on one topic."""
        corrupt, _ = self.corrupt.get(topic, (0, ""))
        return self.delivered.get(topic, 0) + corrupt + self.unknown.get(topic, 0)

    @property
    def seen(self) -> int:
        """Messages met."""
        met = sum(self.delivered.values()) + sum(n for n, _ in self.corrupt.values()) + sum(self.unknown.values())
        return met


def open_bag(path: str | Path, typestore: Typestore | None = None) -> Bag:
    """Open a bag: a folder (with or without metadata.yaml) or a single .mcap, .db3 or .bag file, whatever its
    name.

    typestore: for types that the bag does not define; default: ROS 2 Jazzy's and tether_msgs. Raises
    InvalidInputError where nothing at all can be read; a bag that is merely broken opens.
    """
    return Bag(Path(path), codec.typestore() if typestore is None else typestore)


class Bag:
    """An opened bag; a context manager. `topics`: by name. Times are nanoseconds of log (receive) time."""

    def __init__(self, path: Path, typestore: Typestore) -> None:
        self.path = path
        self._log = LossLog()
        self._stack = ExitStack()
        self._topics: list[TopicInfo] = []
        self._keys: dict[tuple[str, str, Encoding], int] = {}
        self._blocks: list[tuple[Block, list[int]]] = []
        self._tally = _Tally({}, {}, {})
        self._layout: Layout = lay_out(path, self._log)
        try:
            self._files = self._open_files()
        except BaseException:
            self._stack.close()
            raise
        resolver = TypeResolver(typestore)
        self._types = [self._resolve(resolver, topic) for topic in self._topics]
        self._try_definitions(resolver)
        self._compare_counts()

    def __enter__(self) -> Bag:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and remove what was unpacked for reading."""
        self._stack.close()

    @property
    def topics(self) -> dict[str, TopicInfo]:
        """The bag's topics by name; of a topic with several types, the first."""
        named: dict[str, TopicInfo] = {}
        for topic in self._topics:
            named.setdefault(topic.name, topic)
        return named

    @property
    def start_ns(self) -> int | None:
        """Log time of the first message, None in a bag without any."""
        return min((block.start_ns for block, _ in self._blocks), default=None)

    @property
    def end_ns(self) -> int | None:
        """Log time of the last message, None in a bag without any."""
        return max((f.storage.end_ns for f in self._files if f.storage.end_ns is not None), default=None)

    @property
    def custom_data(self) -> dict[str, Any]:
        """`custom_data` of metadata.yaml: what the recorder wrote about the run; {} where there is none."""
        return dict(self._layout.custom_data)

    def resolved(self, topic: str) -> ResolvedType | None:
        """The type of a topic with the store that knows it; None where it is unknown."""
        return next((r for t, r in zip(self._topics, self._types, strict=True) if t.name == topic), None)

    def messages(
        self, topics: Collection[str] | None = None, start_ns: int | None = None, check: bool = True
    ) -> Iterator[BagMessage]:
        """Everything readable in log-time order, ties in file order.

        topics: only these. start_ns: only from this log time on. check: deserialise each message and leave
        out, named and counted, those whose bytes do not fit their type; without it `message` may raise
        CorruptMessageError. Raises InvalidInputError for topics that the bag does not have.
        """
        wanted = self._wanted(topics)
        tally = _Tally({}, {}, {})
        yield from self._deliver(tally, wanted, start_ns, check)
        if start_ns is None and check:
            tally.through = frozenset(index for index, is_wanted in enumerate(wanted) if is_wanted)
        tally.whole = topics is None and start_ns is None and check
        if tally.whole or tally.seen > self._tally.seen:
            self._tally = tally

    def read_through(self) -> Report:
        """Read everything once without keeping it, so that the report is complete."""
        for _ in self.messages():
            pass
        return self.report()

    def report(self) -> Report:
        """What is in the bag and what was lost, as far as it has been read."""
        recorded = self._recorded()
        tally = self._tally
        topics = [
            TopicReport(topic.name, topic.type, topic.encoding_name, recorded.get(i), tally.delivered.get(i, 0))
            for i, topic in enumerate(self._topics)
        ]
        notes = [*self._log.notes, *self._unplayable(tally)]
        if tally.disordered:
            notes.append(f"{tally.disordered} messages have log times before those of earlier blocks; order is theirs")
        return Report(
            path=str(self.path),
            storage="+".join(sorted({f.format.value for f in self._files})),
            files=[FileReport(f.path.name, f.path.stat().st_size, f.format.value, f.compression) for f in self._files],
            topics=topics,
            losses=[*self._log.losses, *self._unaccounted(tally, recorded), *self._message_losses(tally)],
            notes=notes,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            complete=tally.whole,
        )

    # Opening

    def _open_files(self) -> list[OpenFile]:
        files: list[OpenFile] = []
        faults: list[Fault] = []
        for path in self._layout.files:
            try:
                file = open_file(path, self._log, self._stack)
            except InvalidInputError as error:
                faults += error.faults
                why = "; ".join(f"{fault.found}, expected {fault.expected}" for fault in error.faults)
                count = self._layout.file_counts.get(path.name)
                self._log.add(Loss(LossKind.UNREADABLE_FILE, path.name, why, count, path.stat().st_size))
                continue
            files.append(file)
            indices = [self._add_topic(topic) for topic in file.storage.topics]
            self._blocks += [(block, indices) for block in file.storage.blocks]
        if not files:
            raise InvalidInputError("bag", faults, "nothing in it can be read")
        return files

    def _add_topic(self, topic: TopicInfo) -> int:
        """Index of the topic in this bag; splits repeat their topics."""
        key = (topic.name, topic.type, topic.encoding)
        if key not in self._keys:
            qos = topic.qos or self._layout.topic_qos.get(topic.name, ())
            self._keys[key] = len(self._topics)
            self._topics.append(replace(topic, qos=tuple(qos)))
        return self._keys[key]

    def _resolve(self, resolver: TypeResolver, topic: TopicInfo) -> ResolvedType | None:
        if topic.encoding is Encoding.OTHER:
            return None
        resolved = resolver.resolve(topic)
        if resolved is not None and resolved.note:
            self._log.note(resolved.note)
        return resolved

    def _try_definitions(self, resolver: TypeResolver) -> None:
        """Take the store's definition of a topic whose first message fits it, and does not fit the bag's own."""
        others = {i: resolver.other(topic, self._types[i]) for i, topic in enumerate(self._topics)}
        doubtful = {i: other for i, other in others.items() if other is not None}
        for block, indices in sorted(self._blocks, key=lambda entry: entry[0].start_ns)[:_BLOCKS_TRIED]:
            if not doubtful.keys() & set(indices):
                continue
            for _, local, data in block.load():
                index = indices[local]
                other, own = doubtful.pop(index, None), self._types[index]
                if other is not None and own is not None and other.fits_instead_of(own, data):
                    self._types[index] = other
                    self._log.note(f"{own.name}: the bag's definition does not fit its messages; the store's does")

    def _recorded(self) -> dict[int, int]:
        """Messages per topic by the files' own account; by metadata.yaml for topics where the files give
        none."""
        recorded: dict[int, int] = {}
        silent = any(file.storage.recorded is None for file in self._files)
        for file in self._files:
            found, stated_in_file = file.storage.recorded or {}, file.storage.stated
            for local, index in enumerate(self._keys_of(file)):
                if local in found or local in stated_in_file:
                    count = max(found.get(local, 0), stated_in_file.get(local, 0))
                    recorded[index] = recorded.get(index, 0) + count
        for index, topic in enumerate(self._topics):
            stated = self._layout.topic_counts.get(topic.name)
            if stated is not None and (silent or self._log.losses):
                recorded[index] = max(recorded.get(index, 0), stated)
        return recorded

    def _keys_of(self, file: OpenFile) -> list[int]:
        return [self._keys[(t.name, t.type, t.encoding)] for t in file.storage.topics]

    def _compare_counts(self) -> None:
        """Where a file was damaged and metadata.yaml knows how many messages it had, the loss can be counted;
        where it was not and the numbers differ, it is the metadata that is wrong."""
        for file in self._files:
            stated = self._layout.file_counts.get(file.path.name)
            if stated is None and len(self._files) == 1 and not self._missing_files():
                stated = self._layout.total
            held = None if file.storage.recorded is None else sum(file.storage.recorded.values())
            if stated is None or held is None:
                continue
            losses = [loss for loss in self._log.losses if loss.where.startswith(file.path.name)]
            cut = [loss for loss in losses if loss.messages is None]
            if file.format is FileFormat.SQLITE:  # of which rows without a topic are no messages
                held += sum(loss.messages or 0 for loss in losses)
            if len(cut) == 1 and stated >= held:
                self._log.add(replace(cut[0], messages=stated - held))
            elif not cut and stated > held and file.format is FileFormat.SQLITE:
                what = f"metadata.yaml says {stated} messages, {held} rows are in the table"
                self._log.add(Loss(LossKind.DAMAGED, file.path.name, what, stated - held))
            elif not cut and stated != held:
                self._log.note(f"metadata.yaml says {stated} messages for {file.path.name}, the file holds {held}")

    def _missing_files(self) -> bool:
        return any(loss.kind in (LossKind.MISSING_FILE, LossKind.UNREADABLE_FILE) for loss in self._log.losses)

    # Reading

    def _wanted(self, topics: Collection[str] | None) -> list[bool]:
        if topics is None:
            return [True] * len(self._topics)
        have = {topic.name for topic in self._topics}
        missing = sorted(set(topics) - have)
        if missing:
            raise InvalidInputError(
                "topics",
                [
                    Fault(name, "no such topic in the bag", f"one of {', '.join(sorted(have)) or 'none'}")
                    for name in missing
                ],
                "`tether replay BAG --info` lists the topics",
            )
        return [topic.name in topics for topic in self._topics]

    def _merged(self) -> Iterator[RawRecord]:
        """Records of all blocks in log-time order. A block is loaded when its start is reached; blocks
        overlap."""
        pending: list[RawRecord] = []
        at = 0
        for block, indices in sorted(self._blocks, key=lambda entry: entry[0].start_ns):
            while at < len(pending) and pending[at][0] < block.start_ns:
                yield pending[at]
                at += 1
            loaded = [(time, indices[topic], data) for time, topic, data in block.load()]
            # Stable, and two sorted runs merge in one go; most blocks do not overlap and need no sorting.
            pending = sorted(pending[at:] + loaded, key=_log_time) if at < len(pending) else loaded
            at = 0
        yield from pending[at:]

    def _deliver(self, tally: _Tally, wanted: list[bool], start_ns: int | None, check: bool) -> Iterator[BagMessage]:
        names = [topic.name for topic in self._topics]
        decoders = [None if resolved is None else resolved.decoder() for resolved in self._types]
        latest = -(2**63)
        for time, index, data in self._merged():
            if not wanted[index] or (start_ns is not None and time < start_ns):
                continue
            resolved, decode = self._types[index], decoders[index]
            if resolved is None or decode is None:
                tally.unknown[index] = tally.unknown.get(index, 0) + 1
                continue
            try:
                raw = unpacked(data)
                message = decode(raw) if check else None
                stamp_ns = header_stamp_ns(raw, resolved.encoding) if resolved.has_header else None
            except CorruptMessageError as error:
                count, first = tally.corrupt.get(index, (0, f"first at log time {time}: {error}"))
                tally.corrupt[index] = (count + 1, first)
                continue
            if time < latest:
                tally.disordered += 1
            else:
                latest = time
            tally.beyond_clock += not 0 <= time <= MAX_CLOCK_NS
            tally.delivered[index] = tally.delivered.get(index, 0) + 1
            yield BagMessage(names[index], resolved.name, resolved.encoding, time, stamp_ns, raw, decode, message)

    def _unaccounted(self, tally: _Tally, recorded: dict[int, int]) -> Iterator[Loss]:
        """The safety net: messages that the bag's own counts promise, that were not met, and that no loss counts."""
        met = {i: tally.met(i) for i in tally.through}
        short = {i: count - met[i] for i, count in recorded.items() if i in met and count > met[i]}
        missing = sum(short.values()) - sum(loss.messages or 0 for loss in self._log.losses)
        if missing > 0:
            named = ", ".join(f"{self._topics[i].name} ({count})" for i, count in sorted(short.items()))
            what = f"the bag's own counts promise more messages than there are on {named}"
            if any(loss.messages is None for loss in self._log.losses):
                what += "; those lost at the places above are among them"
            yield Loss(LossKind.DAMAGED, self.path.name, what, missing)

    def _unplayable(self, tally: _Tally) -> Iterator[str]:
        """Notes on what can be read, but not played to a ROS graph."""
        played = played_names({topic.name for topic in self._topics}, {})
        for index, topic in enumerate(self._topics):
            if not is_topic_name(played[topic.name]):
                count = tally.delivered.get(index, 0)
                yield f"{topic.name!r} is no topic name in ROS; its {count} messages are read, but not played"
        if tally.beyond_clock:
            yield f"{tally.beyond_clock} messages have log times that /clock cannot carry; they are read, not played"

    def _message_losses(self, tally: _Tally) -> Iterator[Loss]:
        recorded = self._recorded()
        for index, topic in enumerate(self._topics):
            if index in tally.corrupt:
                count, first = tally.corrupt[index]
                yield Loss(LossKind.CORRUPT_MESSAGE, topic.name, first, count)
            if self._types[index] is None:
                count_unknown = tally.unknown.get(index, recorded.get(index))
                if topic.encoding is Encoding.OTHER:
                    what = f"messages are {topic.encoding_name or 'of no stated encoding'}, not CDR or ROS 1"
                    yield Loss(LossKind.UNKNOWN_ENCODING, topic.name, what, count_unknown)
                else:
                    has_own = topic.definition.format is not DefinitionFormat.NONE
                    in_bag = "unreadably in the bag and not" if has_own else "neither in the bag nor"
                    what = f"{topic.type} is defined {in_bag} in the type store"
                    yield Loss(LossKind.UNKNOWN_TYPE, topic.name, what, count_unknown)


def _log_time(record: RawRecord) -> int:
    return record[0]


__all__ = ["Bag", "BagError", "open_bag"]
