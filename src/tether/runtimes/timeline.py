"""A model that ran on one runtime and then on another, run again the same way: what ran it goes by the stamp."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tether.runtimes.interface import Buffers, Prepared, RuntimeName


@dataclass
class StampClock:
    """The stamp of what is being computed again; whoever does it moves the clock first."""

    stamp_ns: int = 0


@dataclass(frozen=True)
class Timeline:
    """What ran a model from which stamp on, in order of stamps; the first counts for all that is older, too."""

    since_ns: tuple[int, ...]
    runtimes: tuple[RuntimeName, ...]
    clock: StampClock

    @staticmethod
    def of(changes: Sequence[tuple[int, RuntimeName]], clock: StampClock) -> Timeline:
        """Of changes in any order; raises ValueError without any."""
        if not changes:
            raise ValueError("no changes, expected one or more")
        ordered = sorted(changes, key=lambda change: change[0])
        return Timeline(tuple(ns for ns, _ in ordered), tuple(name for _, name in ordered), clock)

    def present(self) -> RuntimeName:
        """What ran the model at the clock's stamp."""
        return self.runtimes[max(bisect_right(self.since_ns, self.clock.stamp_ns) - 1, 0)]


class ByStamp:
    """See `Prepared`: whichever of several the timeline names at its clock's stamp."""

    def __init__(self, timeline: Timeline, prepared: Mapping[RuntimeName, Prepared]) -> None:
        self._timeline, self._prepared = timeline, prepared

    @property
    def label(self) -> str:
        """See `Prepared`."""
        return self._present.label

    @property
    def threads(self) -> int:
        """See `Prepared`."""
        return self._present.threads

    @property
    def inputs(self) -> Buffers:
        """See `Prepared`."""
        return self._present.inputs

    @property
    def outputs(self) -> Buffers:
        """See `Prepared`."""
        return self._present.outputs

    def run(self) -> None:
        """See `Prepared`."""
        self._present.run()

    @property
    def _present(self) -> Prepared:
        return self._prepared[self._timeline.present()]
