"""The last seconds of messages in memory, as the bytes they came as; bounded in time and in bytes."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from tether.config import bounded


@dataclass(frozen=True)
class RingLimits:
    """Bounds. Pictures have a budget of their own, so that they cannot push out the verdicts.

    whole_s: pictures younger than this are kept all; of older ones every second goes where the budget is exceeded,
    so that the picture of the whole window gets coarser and not shorter.
    """

    window_s: float = bounded(1.0, 600.0, unit="s", default=30.0)
    bytes_max: int = bounded(2**16, 2**32, unit="B", default=64 * 2**20)
    pictures_bytes_max: int = bounded(2**16, 2**33, unit="B", default=160 * 2**20)
    whole_s: float = bounded(0.0, 600.0, unit="s", default=5.0)


class Kept(NamedTuple):
    """One message. log_ns: time of receipt on the clock that bags use; steady_ns: on the steady clock; number: counts
    up over all messages that came."""

    topic: str
    raw: bytes
    log_ns: int
    steady_ns: int
    number: int


@dataclass
class _Lane:
    """Messages of one budget, oldest first."""

    bytes_max: int
    items: deque[Kept] = field(default_factory=deque)
    size: int = 0

    def push(self, item: Kept) -> None:
        self.items.append(item)
        self.size += len(item.raw)

    def drop_first(self) -> Kept:
        item = self.items.popleft()
        self.size -= len(item.raw)
        return item


class Ring:
    """Bounded memory of messages. Any thread may append and look. Appending costs some microseconds.

    pictures, latched: names of topics. Of a latched topic the newest message is kept whatever its age.
    """

    def __init__(self, limits: RingLimits, pictures: Collection[str] = (), latched: Collection[str] = ()) -> None:
        self._window_ns, self._whole_ns = round(limits.window_s * 1e9), round(limits.whole_s * 1e9)
        self._pictures, self._latched = frozenset(pictures), frozenset(latched)
        self._small = _Lane(limits.bytes_max)
        self._large = _Lane(limits.pictures_bytes_max)
        self._newest_latched: dict[str, Kept] = {}
        self._count = 0
        self._lock = threading.Lock()
        self.pushed_out: Counter[str] = Counter()
        """Topic → messages younger than the window that the budgets had no room for."""

    def append(self, topic: str, raw: bytes, log_ns: int, steady_ns: int) -> None:
        """Take a message in. One that alone exceeds its budget is counted and left out."""
        with self._lock:
            self._count += 1
            item = Kept(topic, raw, log_ns, steady_ns, self._count)
            if topic in self._latched:
                self._newest_latched[topic] = item
                return
            lane = self._large if topic in self._pictures else self._small
            if len(raw) > lane.bytes_max:
                self.pushed_out[topic] += 1
                return
            lane.push(item)
            self._expire(steady_ns)
            if lane.size > lane.bytes_max:
                self._make_room(lane, steady_ns)

    def since(self, number: int = 0) -> list[Kept]:
        """What is kept and came after `number`; small messages first, then pictures, each in the order they came."""
        with self._lock:
            lanes = (self._newest_latched.values(), self._small.items, self._large.items)
            return [item for lane in lanes for item in lane if item.number > number]

    @property
    def size_bytes(self) -> int:
        """Bytes of messages kept."""
        return self._small.size + self._large.size

    def clear(self) -> None:
        """Forget everything but latched messages."""
        with self._lock:
            for lane in (self._small, self._large):
                lane.items.clear()
                lane.size = 0

    def _expire(self, now_ns: int) -> None:
        oldest_ns = now_ns - self._window_ns
        for lane in (self._small, self._large):
            while lane.items and lane.items[0].steady_ns < oldest_ns:
                lane.drop_first()

    def _make_room(self, lane: _Lane, now_ns: int) -> None:
        if lane is self._large:
            self._thin(lane, now_ns - self._whole_ns)
        while lane.size > lane.bytes_max:
            self.pushed_out[lane.drop_first().topic] += 1

    def _thin(self, lane: _Lane, before_ns: int) -> None:
        """Drop every second picture from before `before_ns`."""
        kept: deque[Kept] = deque()
        size, is_second = 0, False
        for item in lane.items:
            if item.steady_ns < before_ns:
                is_second = not is_second
                if not is_second:
                    self.pushed_out[item.topic] += 1
                    continue
            kept.append(item)
            size += len(item.raw)
        lane.items, lane.size = kept, size
