"""Sets of one message per stream with stamps close together, as message_filters makes them.

The semantics are those of `ApproximateTimeSynchronizer` in ros2/message_filters,
src/message_filters/__init__.py at commit 361e42c78ee08a7b63397a143eae87fda7514d61, down to the order of ties:

* A new message goes into its stream's queue; one with the stamp of an older takes its place. A queue that is
  too long gives up the message with the lowest stamp, the new one itself if that is it.
* Candidates from each other stream are those less than `slop` away from the new stamp, nearest first; at
  equal distance the one whose stamp entered the queue first.
* Combinations are tried with the last stream varying fastest. The first whose stamps all lie within less than
  `slop` of each other is emitted, and its messages leave their queues.

message_filters makes Time and Duration objects for every queued stamp at each message and then walks the full
product of candidates. Here stamps are integers kept sorted: candidates come by bisection, outwards from the
new stamp, and a partial combination that is already too wide is given up together with everything that would
follow from it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from tether.errors import Fault, InvalidInputError

M = TypeVar("M")


class ApproximateMatcher(Generic[M]):
    """Matches messages of `streams` streams whose stamps differ by less than `slop_ns`."""

    def __init__(self, streams: int, queue_size: int, slop_ns: int) -> None:
        faults = [
            Fault(name, str(value), expected)
            for name, value, low, expected in (
                ("streams", streams, 1, "1 or more"),
                ("queue_size", queue_size, 1, "1 or more"),
                ("slop_ns", slop_ns, 1, "1 ns or more: equal stamps differ by 0, which must be less"),
            )
            if value < low
        ]
        if faults:
            raise InvalidInputError("approximate matcher", faults)
        self._queues: list[_Queue[M]] = [_Queue() for _ in range(streams)]
        self._queue_size = queue_size
        self._slop_ns = slop_ns
        self.matched = 0
        self.dropped = 0
        """Messages that were given up by a full queue without having been matched."""

    def add(self, stream: int, stamp_ns: int, message: M) -> tuple[M, ...] | None:
        """Take a message of stream number `stream`; the set it completes, one message per stream, or None."""
        own = self._queues[stream]
        own.put(stamp_ns, message)
        if len(own) > self._queue_size:
            self.dropped += 1
            if own.drop_lowest() == stamp_ns:
                return None
        others = [queue for i, queue in enumerate(self._queues) if i != stream]
        chosen = self._combine(others, stamp_ns, stamp_ns, stamp_ns)
        if chosen is None:
            return None
        chosen.insert(stream, stamp_ns)
        self.matched += 1
        return tuple(queue.take(stamp) for queue, stamp in zip(self._queues, chosen, strict=True))

    def clear(self) -> None:
        """Empty all queues, after time went back."""
        for queue in self._queues:
            queue.clear()

    def _combine(self, queues: list[_Queue[M]], centre: int, low: int, high: int) -> list[int] | None:
        """First combination of one stamp per queue that, with those in [low, high], is narrow enough."""
        if not queues:
            return []
        for stamp in queues[0].nearest(centre, high - self._slop_ns, low + self._slop_ns):
            rest = self._combine(queues[1:], centre, min(low, stamp), max(high, stamp))
            if rest is not None:
                return [stamp, *rest]
        return None


class _Queue(Generic[M]):
    """Messages by stamp: sorted for bisection, numbered by entry for ties."""

    def __init__(self) -> None:
        self._stamps: list[int] = []
        self._messages: dict[int, tuple[int, M]] = {}
        self._entered = 0

    def __len__(self) -> int:
        return len(self._stamps)

    def put(self, stamp: int, message: M) -> None:
        before = self._messages.get(stamp)
        if before is not None:
            self._messages[stamp] = (before[0], message)
            return
        insort(self._stamps, stamp)
        self._messages[stamp] = (self._entered, message)
        self._entered += 1

    def take(self, stamp: int) -> M:
        del self._stamps[bisect_left(self._stamps, stamp)]
        return self._messages.pop(stamp)[1]

    def drop_lowest(self) -> int:
        stamp = self._stamps.pop(0)
        del self._messages[stamp]
        return stamp

    def clear(self) -> None:
        self._stamps.clear()
        self._messages.clear()

    def nearest(self, centre: int, above: int, below: int) -> Iterator[int]:
        """Stamps in (above, below), by distance from `centre`, ties by entry; above < centre < below."""
        stamps = self._stamps
        right = bisect_left(stamps, centre)
        left = right - 1
        while True:
            has_left = left >= 0 and stamps[left] > above
            has_right = right < len(stamps) and stamps[right] < below
            if not has_left and not has_right:
                return
            if has_left and has_right:
                lead = (centre - stamps[left]) - (stamps[right] - centre)
                if lead == 0:
                    lead = self._messages[stamps[left]][0] - self._messages[stamps[right]][0]
                has_left = lead < 0
            if has_left:
                yield stamps[left]
                left -= 1
            else:
                yield stamps[right]
                right += 1
