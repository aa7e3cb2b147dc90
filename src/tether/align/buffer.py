"""One stream's samples in order of their stamps, with the time each of them arrived.

Two questions are asked of it, and keeping them apart is what makes training honest:

* `as_of(t)`: what was the value at time t? By stamp, interpolated. A label is made from it.
* `arrived_by(t)`: which samples had come by time t? By arrival. An input is made from it.

`as_of(t, known_by)` is both at once: the value at t as far as it could be told from what had come by
`known_by`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from tether.align.interpolate import Interpolator
from tether.config import bounded
from tether.errors import Fault, InvalidInputError

T = TypeVar("T")


class Duplicates(str, Enum):
    """What to do with a sample whose stamp is already there."""

    KEEP_FIRST = "keep_first"
    """Refuse the later one: history never changes once it was seen."""
    KEEP_LAST = "keep_last"
    """Take its place: for sources that send corrections. It changes what `arrived_by` says of the past."""


class Inserted(str, Enum):
    """What became of an inserted sample."""

    APPENDED = "appended"
    REORDERED = "reordered"
    """Put before samples that came earlier."""
    REPLACED = "replaced"
    DUPLICATE = "duplicate"
    """Refused, Duplicates.KEEP_FIRST."""
    TOO_OLD = "too_old"
    """Refused: older than everything in a full buffer."""


class Quality(str, Enum):
    """How a value at a time was come by."""

    EXACT = "exact"
    """A sample bears this very stamp."""
    INTERPOLATED = "interpolated"
    HELD = "held"
    """The sample before it, as it was: none came after it, or the stream is not interpolated."""
    GAP = "gap"
    """Samples on both sides, but farther apart than `max_gap_ns`: the one before, as it was."""
    MISSING = "missing"
    """No sample at or before it: no value."""


@dataclass(frozen=True)
class BufferConfig:
    """Bounds of one buffer."""

    capacity: int = bounded(2, 10_000_000, unit="samples", default=1024)
    max_gap_ns: int = bounded(
        1, 3_600_000_000_000, unit="ns", default=200_000_000, doc="widest step that is interpolated over"
    )
    duplicates: Duplicates = Duplicates.KEEP_FIRST


@dataclass(frozen=True, eq=False)
class Entry(Generic[T]):
    """One sample: acquisition stamp, arrival on the same clock, and the value."""

    stamp_ns: int
    arrival_ns: int
    value: T


@dataclass(frozen=True, eq=False)
class AsOf(Generic[T]):
    """The value at `at_ns`.

    value: None only where `quality` is MISSING. before_ns, after_ns: stamps it was made from, equal where one
    sample sufficed, None where missing. staleness_ns: how far `at_ns` lies behind the data; 0 for EXACT and
    INTERPOLATED, None for MISSING.
    """

    at_ns: int
    value: T | None
    quality: Quality
    before_ns: int | None
    after_ns: int | None
    staleness_ns: int | None


@dataclass(frozen=True)
class BufferStats:
    """Counts since the buffer was made, but for `lost`, which starts anew with `clear`.

    held: samples in the buffer now. lost: sequence numbers between the lowest and the highest that came which
    never came themselves; None while no sample had one. max_delay_ns: longest way from stamp to arrival.
    """

    held: int
    inserted: int
    reordered: int
    duplicates: int
    too_old: int
    evicted: int
    cleared: int
    lost: int | None
    newest_stamp_ns: int | None
    newest_arrival_ns: int | None
    max_delay_ns: int | None


class StreamBuffer(Generic[T]):
    """Bounded buffer of one stream. Insertion is O(1) in order and O(n) out of order; `as_of` is O(log n).

    Full, it gives up its oldest sample by stamp. Times are integer nanoseconds of one clock.
    interpolate: None where a value stands until the next one comes (pictures, modes, ids).
    """

    def __init__(self, config: BufferConfig | None = None, interpolate: Interpolator[T] | None = None) -> None:
        self.config = config or BufferConfig()
        self._interpolate = interpolate
        self._stamps: list[int] = []
        self._entries: list[Entry[T]] = []
        self._counts = dict.fromkeys(Inserted, 0)
        self._evicted = 0
        self._cleared = 0
        self._newest_arrival_ns: int | None = None
        self._max_delay_ns: int | None = None
        self._sequences: tuple[int, int, int] | None = None  # lowest, highest, how many

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget all samples, after time went back; counts stay."""
        self._stamps.clear()
        self._entries.clear()
        self._newest_arrival_ns = None
        self._sequences = None
        self._cleared += 1

    def insert(self, stamp_ns: int, arrival_ns: int, value: T, sequence: int | None = None) -> Inserted:
        """Put a sample where its stamp belongs. sequence: its number at the source, to count losses by.

        Raises InvalidInputError, changing nothing, for times that are not integers: float seconds lose
        nanoseconds.
        """
        _check_times(stamp_ns=stamp_ns, arrival_ns=arrival_ns)
        outcome = self._place(Entry(stamp_ns, arrival_ns, value))
        self._counts[outcome] += 1
        if self._newest_arrival_ns is None or arrival_ns > self._newest_arrival_ns:
            self._newest_arrival_ns = arrival_ns
        delay = arrival_ns - stamp_ns
        if self._max_delay_ns is None or delay > self._max_delay_ns:
            self._max_delay_ns = delay
        if sequence is not None and outcome not in (Inserted.DUPLICATE, Inserted.REPLACED):
            low, high, n = self._sequences or (sequence, sequence, 0)
            self._sequences = (min(low, sequence), max(high, sequence), n + 1)
        return outcome

    def as_of(self, t_ns: int, known_by_ns: int | None = None) -> AsOf[T]:
        """The value at `t_ns`, told from all samples, or only from those arrived by `known_by_ns`."""
        at = bisect_right(self._stamps, t_ns)
        before = self._last_arrived(at, known_by_ns)
        if before is None:
            return AsOf(t_ns, None, Quality.MISSING, None, None, None)
        if before.stamp_ns == t_ns:
            return AsOf(t_ns, before.value, Quality.EXACT, t_ns, t_ns, 0)
        after = self._first_arrived(at, known_by_ns)
        stamp = before.stamp_ns
        if after is None or self._interpolate is None:
            return AsOf(t_ns, before.value, Quality.HELD, stamp, stamp, t_ns - stamp)
        if after.stamp_ns - stamp > self.config.max_gap_ns:
            return AsOf(t_ns, before.value, Quality.GAP, stamp, stamp, t_ns - stamp)
        share = (t_ns - stamp) / (after.stamp_ns - stamp)
        value = self._interpolate(before.value, after.value, share)
        return AsOf(t_ns, value, Quality.INTERPOLATED, stamp, after.stamp_ns, 0)

    def arrived_by(self, t_ns: int, newest: int = 1) -> tuple[Entry[T], ...]:
        """Of the samples arrived by `t_ns` the `newest` ones by stamp, oldest first; fewer if fewer came."""
        if newest < 1:
            raise InvalidInputError("arrived_by", [Fault("newest", str(newest), "1 or more")])
        found: list[Entry[T]] = []
        for entry in reversed(self._entries):
            if entry.arrival_ns <= t_ns:
                found.append(entry)
                if len(found) == newest:
                    break
        return tuple(reversed(found))

    def between(self, from_ns: int, to_ns: int) -> tuple[Entry[T], ...]:
        """Samples with from_ns ≤ stamp ≤ to_ns, oldest first."""
        return tuple(self._entries[bisect_left(self._stamps, from_ns) : bisect_right(self._stamps, to_ns)])

    def stats(self) -> BufferStats:
        """The numbers of this stream."""
        counts = self._counts
        lost = None
        if self._sequences is not None:
            low, high, n = self._sequences
            lost = max(0, high - low + 1 - n)
        return BufferStats(
            held=len(self._entries),
            inserted=counts[Inserted.APPENDED] + counts[Inserted.REORDERED] + counts[Inserted.REPLACED],
            reordered=counts[Inserted.REORDERED],
            duplicates=counts[Inserted.DUPLICATE] + counts[Inserted.REPLACED],
            too_old=counts[Inserted.TOO_OLD],
            evicted=self._evicted,
            cleared=self._cleared,
            lost=lost,
            newest_stamp_ns=self._stamps[-1] if self._stamps else None,
            newest_arrival_ns=self._newest_arrival_ns,
            max_delay_ns=self._max_delay_ns,
        )

    def _place(self, entry: Entry[T]) -> Inserted:
        stamps, stamp_ns = self._stamps, entry.stamp_ns
        if not stamps or stamp_ns > stamps[-1]:
            at = len(stamps)
        else:
            at = bisect_left(stamps, stamp_ns)
            if stamps[at] == stamp_ns:
                if self.config.duplicates is Duplicates.KEEP_FIRST:
                    return Inserted.DUPLICATE
                self._entries[at] = entry
                return Inserted.REPLACED
        if len(stamps) == self.config.capacity:
            if at == 0:
                return Inserted.TOO_OLD
            del stamps[0], self._entries[0]
            self._evicted += 1
            at -= 1
        outcome = Inserted.APPENDED if at == len(stamps) else Inserted.REORDERED
        stamps.insert(at, stamp_ns)
        self._entries.insert(at, entry)
        return outcome

    def _last_arrived(self, end: int, known_by_ns: int | None) -> Entry[T] | None:
        """Newest entry before index `end` that had arrived: the first seen, if arrivals were in order."""
        for i in range(end - 1, -1, -1):
            if known_by_ns is None or self._entries[i].arrival_ns <= known_by_ns:
                return self._entries[i]
        return None

    def _first_arrived(self, begin: int, known_by_ns: int | None) -> Entry[T] | None:
        for i in range(begin, len(self._entries)):
            if known_by_ns is None or self._entries[i].arrival_ns <= known_by_ns:
                return self._entries[i]
        return None


def _check_times(**times: object) -> None:
    faults = [
        Fault(name, repr(value), "a whole number of nanoseconds")
        for name, value in times.items()
        if type(value) is not int
    ]
    if faults:
        raise InvalidInputError("stream buffer", faults, "convert to int nanoseconds before inserting")
