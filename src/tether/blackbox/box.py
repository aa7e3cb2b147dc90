"""The black box: takes every message in, and when something trips has it written by a thread of its own."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tether.blackbox.contents import LATCHED, PICTURES
from tether.blackbox.dump import Dump, DumpReport, make_reserve
from tether.blackbox.ring import Ring, RingLimits
from tether.blackbox.trips import Trip
from tether.config import bounded

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class BoxConfig:
    """after_s: how much of what follows a trip is written too. spacing_s: trips that come sooner after the end of a
    dump belong to it. dumps_max: most that one run writes; a graph that trips for ever must not fill the disk."""

    limits: RingLimits = field(default_factory=RingLimits)
    after_s: float = bounded(0.0, 60.0, unit="s", default=1.0)
    spacing_s: float = bounded(0.0, 3600.0, unit="s", default=5.0)
    dumps_max: int = bounded(1, 1000, default=10)


class BlackBox:
    """Memory of the last seconds, and its writer. `append` and `trip` come from one thread and never wait for a disk.

    folder: where dumps go, one folder each. about: texts about the run for summaries and bags.
    """

    def __init__(self, folder: Path, config: BoxConfig | None = None, about: dict[str, str] | None = None) -> None:
        """Sets room aside for summaries; where there is none it says so in the log and goes on."""
        self.folder = folder
        self._config = BoxConfig() if config is None else config
        self._about = dict(about or {})
        self.ring = Ring(self._config.limits, PICTURES, LATCHED)
        self._reports: list[DumpReport] = []
        self._further: list[Trip] = []
        self._thread: threading.Thread | None = None
        self._ended_ns: int | None = None
        self._dumps = 0
        self._close = threading.Event()
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            make_reserve(folder)
        except OSError as error:
            _LOG.error("black box: no room is set aside in %s: %s", folder, error.strerror or error)

    def append(self, topic: str, raw: bytes, log_ns: int, steady_ns: int) -> None:
        """Take one serialised message in."""
        self.ring.append(topic, raw, log_ns, steady_ns)

    def trip(self, trip: Trip) -> bool:
        """Something tripped: write. False where it belongs to a dump that is under way or was just written, or where
        dumps_max is reached."""
        config = self._config
        with self._lock:
            writing = self._thread is not None and self._thread.is_alive()
            just_now = self._ended_ns is not None and trip.steady_ns - self._ended_ns < config.spacing_s * 1e9
            if writing:
                self._further.append(trip)
                del self._further[:-100]
            if writing or just_now or self._dumps >= config.dumps_max or self._close.is_set():
                _LOG.warning("black box: no dump of its own: %s: %s", trip.kind.value, trip.reason)
                return False
            self._dumps += 1
            self._further = []
            self._thread = threading.Thread(target=self._write, args=(trip,), name="black box", daemon=True)
            self._thread.start()
        return True

    def reports(self) -> list[DumpReport]:
        """Dumps that ended since the last call."""
        with self._lock:
            taken, self._reports = self._reports, []
        return taken

    def close(self, wait_s: float) -> bool:
        """Take no more trips and end what is being written, without waiting for what follows the trip. Whether it
        ended in `wait_s`; the thread goes on meanwhile."""
        self._close.set()
        if self._thread is not None:
            self._thread.join(wait_s)
            return not self._thread.is_alive()
        return True

    def _write(self, trip: Trip) -> None:
        config = self._config
        limits = config.limits
        dump = Dump(self.folder, trip, limits.bytes_max + limits.pictures_bytes_max, self._about)
        kept = self.ring.since()
        last = max((item.number for item in kept), default=0)
        dump.begin(kept, dict(self.ring.pushed_out))
        del kept
        self._close.wait(config.after_s)
        after = self.ring.since(last)
        dump.add(after)
        with self._lock:
            further = list(self._further)
        report = dump.finish(further)
        with self._lock:
            self._ended_ns = max([trip.steady_ns, *(item.steady_ns for item in after)])
            self._reports.append(report)
