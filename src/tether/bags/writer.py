"""Recording: rosbag2's MCAP layout, written by a thread of its own, readable up to the last second whatever happens.

`write` puts a message into a bounded queue and returns at once. The thread compresses and writes; at least every
`flush_s` it closes the chunk in progress and hands it to the operating system, so that a killed process loses no more
than that. A full disk, or any other fault of the file, ends the recording and not the run.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcap.writer import CompressionType
from rosbags.interfaces import Qos
from rosbags.typesys.store import Typestore

from tether import __version__, codec
from tether.bags import metadata
from tether.bags.mcap_output import McapOutput
from tether.bags.report import BagError
from tether.errors import Fault, InvalidInputError

_LOG = logging.getLogger(__name__)
JOIN_DEADLINE_S = 30.0


@dataclass(frozen=True)
class WriterOptions:
    """How to record. queue_bytes: most that waits for the disk; what comes beyond is dropped and counted.

    chunk_bytes: chunks are closed at this size or after flush_s. split_bytes, split_s: begin a new file at this size or
    span of log time, None for one file. distro: what `ros_distro` says.
    """

    flush_s: float = 0.5
    queue_bytes: int = 64 * 2**20
    chunk_bytes: int = 2**20
    compression: CompressionType = CompressionType.ZSTD
    split_bytes: int | None = None
    split_s: float | None = None
    distro: str = "jazzy"

    def __post_init__(self) -> None:
        faults = [
            Fault(name, repr(value), expected)
            for name, value, expected, good in (
                ("flush_s", self.flush_s, "above 0, at most 1", 0.0 < self.flush_s <= 1.0),
                ("queue_bytes", self.queue_bytes, "1 MiB or more", self.queue_bytes >= 2**20),
                ("chunk_bytes", self.chunk_bytes, "4 KiB or more", self.chunk_bytes >= 4096),
                (
                    "split_bytes",
                    self.split_bytes,
                    "64 KiB or more",
                    self.split_bytes is None or self.split_bytes >= 2**16,
                ),
                ("split_s", self.split_s, "1 s or more", self.split_s is None or self.split_s >= 1.0),
            )
            if not good
        ]
        if faults:
            raise InvalidInputError("recording options", faults)


@dataclass(frozen=True)
class RecordingSummary:
    """How a recording went. dropped: topic → messages that found the queue full or the recording over. failure: why it
    ended early, None where it did not."""

    path: Path
    files: tuple[str, ...]
    messages: Mapping[str, int]
    dropped: Mapping[str, int]
    failure: str | None


@dataclass(frozen=True)
class _Topic:
    name: str
    type: str
    qos: tuple[Qos, ...]
    definition: str
    hash: str


@dataclass(frozen=True)
class _Item:
    topic: str
    raw: bytes
    log_time_ns: int
    publish_time_ns: int


@dataclass
class _Queue:
    """What waits for the thread, under one lock."""

    items: deque[_Item] = field(default_factory=deque)
    size_bytes: int = 0
    closing: bool = False
    wake: threading.Condition = field(default_factory=threading.Condition)


class BagWriter:
    """Records serialised messages into a new folder `path`. A context manager; `close` finishes the bag.

    custom_data: strings about the run, kept in metadata.yaml. on_failure: called once, from the writing thread, with
    the reason why the recording ended early. make_output: opens one file; an argument for tests.
    Raises InvalidInputError where `path` exists and is not an empty folder, BagError where it cannot be made.
    """

    def __init__(
        self,
        path: Path,
        options: WriterOptions | None = None,
        typestore: Typestore | None = None,
        custom_data: Mapping[str, str] | None = None,
        on_failure: Callable[[str], None] | None = None,
        make_output: Callable[[Path, WriterOptions], McapOutput] | None = None,
    ) -> None:
        self.path = path
        self._options = WriterOptions() if options is None else options
        self._store = codec.typestore() if typestore is None else typestore
        self._custom_data = dict(custom_data or {})
        self._on_failure = on_failure
        self._make_output = _open_output if make_output is None else make_output
        self._topics: dict[str, _Topic] = {}
        self._begun: set[str] = set()
        self._messages: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._failure: str | None = None
        self._queue = _Queue()
        self._in_hand: deque[_Item] = deque()
        self._files: list[metadata.FileEntry] = []
        _make_folder(path)
        try:
            self._begin_file()
            self._write_metadata()
        except OSError as error:
            raise BagError(
                f"{path}: cannot record here ({error.strerror or error}); free space or permit it"
            ) from error
        self._thread = threading.Thread(target=self._work, name=f"bag-writer {path.name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def failure(self) -> str | None:
        """Why the recording ended early, None while it goes on."""
        return self._failure

    @property
    def dropped(self) -> dict[str, int]:
        """Topic → messages that were not recorded, so far."""
        with self._queue.wake:
            return dict(self._dropped)

    def add_topic(self, name: str, type_name: str, qos: Sequence[Qos] = ()) -> None:
        """Declare a topic before its first message. Declaring it again with other QoS profiles replaces them while it
        has none, for publishers come and go; from then on they stand in the file, and readers pass over a topic on
        which file and metadata.yaml disagree. With another type it is refused. Raises InvalidInputError, also for
        unknown types."""
        known = self._topics.get(name)
        if known is not None and known.type != type_name:
            raise InvalidInputError("recording", [Fault(name, type_name, f"{known.type}, as it was declared")])
        if type_name not in self._store.fielddefs:
            fault = Fault(name, f"type {type_name}", "a type in the type store")
            raise InvalidInputError("recording", [fault], "register the package's .msg files with the store")
        if known is not None:
            with self._queue.wake:
                if name not in self._begun:
                    self._topics[name] = replace(known, qos=tuple(qos))
            return
        definition = self._store.generate_msgdef(type_name, ros_version=2)[0]
        self._topics[name] = _Topic(name, type_name, tuple(qos), definition, self._store.hash_rihs01(type_name))

    def write(self, topic: str, raw: bytes, log_time_ns: int, publish_time_ns: int | None = None) -> bool:
        """Record one serialised message; False where it was dropped (and counted). Never waits for the disk.

        Raises InvalidInputError for an undeclared topic or a negative time.
        """
        if topic not in self._topics:
            fault = Fault(topic, "a message", "add_topic first")
            raise InvalidInputError("recording", [fault])
        published_ns = log_time_ns if publish_time_ns is None else publish_time_ns
        if log_time_ns < 0 or published_ns < 0:
            fault = Fault(topic, f"times {log_time_ns} and {published_ns} ns", "0 or more")
            raise InvalidInputError("recording", [fault])
        queue = self._queue
        with queue.wake:
            full = queue.size_bytes + len(raw) > self._options.queue_bytes and bool(queue.items)
            if full or queue.closing or self._failure is not None:
                self._dropped[topic] += 1
                return False
            self._begun.add(topic)
            queue.items.append(_Item(topic, raw, log_time_ns, published_ns))
            queue.size_bytes += len(raw)
            queue.wake.notify()
        return True

    def end(self, wait_s: float) -> bool:
        """Take no more messages; the thread writes what waits and finishes the bag. Whether it did so in `wait_s`."""
        with self._queue.wake:
            self._queue.closing = True
            self._queue.wake.notify()
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def close(self) -> RecordingSummary:
        """Write what waits, finish the file and metadata.yaml. Closing again returns the same summary.

        Raises BagError where that takes longer than JOIN_DEADLINE_S.
        """
        if not self.end(JOIN_DEADLINE_S):
            raise BagError(f"{self.path}: the disk has not taken the rest of the recording in {JOIN_DEADLINE_S:g} s")
        return RecordingSummary(
            self.path,
            tuple(file.name for file in self._files),
            dict(self._messages),
            dict(self._dropped),
            self._failure,
        )

    # The writing thread

    def _work(self) -> None:
        flush_at = time.monotonic() + self._options.flush_s
        done = False
        try:
            while True:
                closing = self._take(flush_at)
                while self._in_hand:
                    if self._is_full(self._in_hand[0].log_time_ns):
                        self._finish_file()
                        self._begin_file()
                    self._put(self._in_hand[0])
                    self._in_hand.popleft()
                if time.monotonic() >= flush_at or closing:
                    self._output.flush()
                    flush_at = time.monotonic() + self._options.flush_s
                if closing:
                    break
            self._finish_file()
            done = True
        except OSError as error:
            done = True
            self._fail(_disk_fault(error))
        finally:
            if not done:  # a fault of our own; whoever records must not go on believing that it does
                self._fail("the recorder itself has failed; see the traceback in the log")

    def _take(self, until: float) -> bool:
        """Take in hand everything that waits, as soon as something does or `until` has come; True: it was the last."""
        queue = self._queue
        with queue.wake:
            queue.wake.wait_for(lambda: queue.items or queue.closing, max(0.0, until - time.monotonic()))
            self._in_hand.extend(queue.items)
            queue.items.clear()
            queue.size_bytes = 0
            return queue.closing

    def _put(self, item: _Item) -> None:
        topic = self._topics[item.topic]
        self._output.add(
            topic.name,
            topic.type,
            topic.definition,
            topic.hash,
            topic.qos,
            item.raw,
            item.log_time_ns,
            item.publish_time_ns,
        )
        self._messages[item.topic] += 1

    def _is_full(self, log_time_ns: int) -> bool:
        options, output = self._options, self._output
        if options.split_bytes is not None and output.size_bytes >= options.split_bytes:
            return True
        begun_ns = output.start_ns
        return options.split_s is not None and begun_ns is not None and log_time_ns - begun_ns >= options.split_s * 1e9

    def _next_output(self) -> McapOutput:
        return self._make_output(self.path / f"{self.path.name}_{len(self._files)}.mcap", self._options)

    def _begin_file(self) -> None:
        self._output = self._next_output()
        self._output.begin(metadata.dump(self._describe()))

    def _finish_file(self) -> None:
        self._files.append(self._output.entry())
        self._output.finish(metadata.dump(self._describe()))
        self._write_metadata()

    def _describe(self) -> dict[str, object]:
        files = list(self._files)
        if not files or files[-1].name != self._output.path.name:
            files.append(self._output.entry())
        topics = [
            metadata.TopicEntry(t.name, t.type, t.qos, t.hash, self._messages[t.name])
            for t in list(self._topics.values())
            if self._messages[t.name]
        ]
        return metadata.describe(topics, files, self._custom_data, self._options.distro)

    def _write_metadata(self) -> None:
        metadata.write(self.path, self._describe())

    def _fail(self, what: str) -> None:
        """End the recording; what was flushed stays readable, and what waits counts as dropped."""
        reason = (
            f"{self._output.path}: {what}; recording stopped, {self._output.flushed} messages of this file are kept"
        )
        with self._queue.wake:
            self._failure = reason
            for item in (*self._in_hand, *self._queue.items):
                self._dropped[item.topic] += 1
            self._queue.items.clear()
            self._queue.size_bytes = 0
        for topic, lost in self._output.abandon().items():
            self._messages[topic] -= lost
            self._dropped[topic] += lost
        _LOG.error("%s", reason)
        entry = self._output.entry()
        self._files = [*(file for file in self._files if file.name != entry.name), entry]
        try:
            self._write_metadata()
        except OSError as late:
            _LOG.warning("%s: metadata.yaml is not up to date (%s)", self.path, late.strerror or late)
        if self._on_failure is not None:
            self._on_failure(reason)


def _disk_fault(error: OSError) -> str:
    return "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or str(error))


def _open_output(path: Path, options: WriterOptions) -> McapOutput:
    return McapOutput(path, options.chunk_bytes, options.compression, f"tether {__version__}")


def _make_folder(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        fault = Fault(str(path), "something there already", "a new or empty folder")
        raise InvalidInputError("recording", [fault], "name another folder; recordings are never overwritten")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BagError(f"{path}: cannot be made ({error.strerror or error}); name a folder that can") from error
