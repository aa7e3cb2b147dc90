"""Writing what the black box holds, so that whatever happens meanwhile something readable is left.

What matters most comes first and is small: summary and picture, in room that was set aside for them. Then the bag:
small messages, then pictures. All of it is written into a folder called `….partial`, which gets its name once
everything is on the disk. A kill leaves the partial folder, whose bag is readable up to the last half second; a full
disk leaves the summary, and as much of the bag as there was room for.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcap.writer import CompressionType

from tether import __version__
from tether.bags.report import BagError
from tether.bags.writer import BagWriter, RecordingSummary, WriterOptions
from tether.blackbox.contents import TYPES
from tether.blackbox.incident import Incident, read_incident
from tether.blackbox.picture import dot, render
from tether.blackbox.ring import Kept
from tether.blackbox.trips import Trip
from tether.errors import TetherError
from tether.signing.files import sync_folder, write_whole

_LOG = logging.getLogger(__name__)
PARTIAL = ".partial"
SUMMARY, PICTURE, BAG = "summary.json", "incident.dot", "bag"
RESERVE = "reserve"
KEEP_FREE_BYTES = 256 * 2**20
_RESERVE_BYTES = 4 * 2**20
_CLOSE_S = 120.0
_CHUNK_BYTES = 32 * 1024


@dataclass(frozen=True)
class DumpReport:
    """How writing went. path: the folder. failure: what is missing and why, None where all is there."""

    trip: Trip
    path: Path
    messages: int
    failure: str | None


class Dump:
    """Writes one incident. Called from a thread of its own, in order: `begin`, `add` any number of times, `finish`.

    None of them raises OSError; what could not be written is in the report.
    """

    def __init__(self, folder: Path, trip: Trip, queue_bytes: int, about: dict[str, str]) -> None:
        """queue_bytes: what one `add` may hold at most."""
        self._folder, self._trip, self._about = folder, trip, about
        self._queue_bytes = max(queue_bytes, 2**20)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._final = _free(folder, f"{stamp}-{trip.kind.value}")
        self._partial = self._final.with_name(self._final.name + PARTIAL)
        self._summary: dict[str, Any] = {}
        self._bag: BagWriter | None = None
        self._failures: list[str] = []
        self._room = 0
        self._left_out: Counter[str] = Counter()

    def begin(self, messages: Sequence[Kept], pushed_out: dict[str, int]) -> None:
        """Summary and picture of what was kept, then its bag."""
        self._try("room", lambda: (self._folder / RESERVE).unlink(missing_ok=True))
        self._try("folder", lambda: self._partial.mkdir(parents=True))
        incident = self._analysed(messages)
        self._summary = {
            "tool": "tether black box",
            "version": __version__,
            "about": self._about,
            **({"trip": self._trip.reason} if incident is None else incident.as_json()),
            "pushed_out": pushed_out,
            "bag": {"complete": False},
        }
        self._try(SUMMARY, self._write_summary)
        if incident is not None:
            self._try(PICTURE, lambda: write_whole(self._partial / PICTURE, dot(incident).encode()))
        self._try("room", self._measure_room)
        self._try(BAG, self._open_bag)
        self.add(messages)

    def add(self, messages: Sequence[Kept]) -> None:
        """More messages for the bag: what came after the trip."""
        bag = self._bag
        if bag is not None:
            self._try(BAG, lambda: self._write_messages(bag, messages))

    def finish(self, further: Sequence[Trip]) -> DumpReport:
        """Finish bag and summary, draw, and give the folder its name. further: trips while it was written."""
        recorded = self._close_bag()
        self._summary["further_trips"] = [
            {"kind": trip.kind.value, "reason": trip.reason, "stamp_ns": trip.stamp_ns} for trip in further
        ]
        if recorded is not None:
            self._summary["bag"] = {
                "complete": recorded.failure is None and not recorded.dropped and not self._left_out,
                "messages": dict(recorded.messages),
                "dropped": dict(recorded.dropped),
                "left_out": dict(self._left_out),
                "failure": recorded.failure,
            }
            if recorded.failure is not None:
                self._failures.append(recorded.failure)
        if self._left_out:
            count = sum(self._left_out.values())
            self._failures.append(f"{BAG}: {count} messages left out, {KEEP_FREE_BYTES} bytes are left to others")
        self._summary["failures"] = list(self._failures)
        self._try(SUMMARY, self._write_summary)
        render(self._partial / PICTURE)
        place = self._partial
        if self._try("name", self._rename):
            place = self._final
        self._try("room", lambda: make_reserve(self._folder))
        count = 0 if recorded is None else sum(recorded.messages.values())
        return DumpReport(self._trip, place, count, "; ".join(self._failures) or None)

    def _write_messages(self, bag: BagWriter, messages: Sequence[Kept]) -> None:
        for item in messages:
            if len(item.raw) > self._room:
                self._left_out[item.topic] += 1
                continue
            self._room -= len(item.raw)
            bag.write(item.topic, item.raw, item.log_ns)

    def _measure_room(self) -> None:
        """What the bag may take of the disk: others write there too."""
        found = os.statvfs(self._partial)
        self._room = max(0, found.f_bavail * found.f_frsize - KEEP_FREE_BYTES)

    def _analysed(self, messages: Sequence[Kept]) -> Incident | None:
        try:
            return read_incident(self._trip, messages)
        except Exception as error:  # noqa: BLE001 - the messages are evidence, and written whatever they hold
            _LOG.exception("black box: the messages cannot be made sense of")
            self._failures.append(f"analysis: {type(error).__name__}: {error}")
            return None

    def _open_bag(self) -> None:
        # Small chunks: what a full disk takes away is at most one of them.
        options = WriterOptions(
            queue_bytes=2 * self._queue_bytes, chunk_bytes=_CHUNK_BYTES, compression=CompressionType.LZ4
        )
        self._bag = BagWriter(self._partial / BAG, options, custom_data={**self._about, "trip": self._trip.kind.value})
        for name, type_name in TYPES.items():
            self._bag.add_topic(name, type_name)

    def _close_bag(self) -> RecordingSummary | None:
        if self._bag is None:
            return None
        if not self._bag.end(_CLOSE_S):
            self._failures.append(f"{BAG}: the disk has not taken it in {_CLOSE_S:g} s")
            return None
        return self._bag.close()

    def _write_summary(self) -> None:
        text = json.dumps(self._summary, indent=1, allow_nan=False) + "\n"
        write_whole(self._partial / SUMMARY, text.encode())

    def _rename(self) -> None:
        for folder in (self._partial / BAG, self._partial):
            if folder.is_dir():
                sync_folder(folder)
        os.replace(self._partial, self._final)
        sync_folder(self._folder)

    def _try(self, what: str, call: Callable[[], object]) -> bool:
        """Whether it went well; what did not is part of the report, and does not keep the rest from being written."""
        try:
            call()
        except (OSError, BagError, TetherError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            _LOG.error("black box: %s: %s", what, reason)
            self._failures.append(f"{what}: {reason}")
            return False
        return True


def make_reserve(folder: Path) -> None:
    """Set room aside for summary and picture, for the time when the disk is full. Raises OSError."""
    path = folder / RESERVE
    if path.exists() and path.stat().st_size == _RESERVE_BYTES:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, _RESERVE_BYTES)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def left_overs(folder: Path) -> list[Path]:
    """Folders that a killed process left unfinished; their summaries and bags are readable."""
    return sorted(path for path in folder.glob(f"*{PARTIAL}") if path.is_dir()) if folder.is_dir() else []


def _free(folder: Path, name: str) -> Path:
    number = 1
    while True:
        path = folder / (name if number == 1 else f"{name}-{number}")
        if not path.exists() and not path.with_name(path.name + PARTIAL).exists():
            return path
        number += 1
