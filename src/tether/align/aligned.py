"""Several streams on one clock: everything as it was at t, and what had arrived by t."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tether.align.buffer import AsOf, BufferConfig, BufferStats, Entry, Inserted, Quality, StreamBuffer
from tether.align.interpolate import Interpolator
from tether.errors import Fault, InvalidInputError


@dataclass(frozen=True, eq=False)
class StreamSpec:
    """How one stream is kept and interpolated."""

    config: BufferConfig = field(default_factory=BufferConfig)
    interpolate: Interpolator[Any] | None = None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Every stream as it was at `at_ns`."""

    at_ns: int
    streams: Mapping[str, AsOf[Any]]

    @property
    def missing(self) -> tuple[str, ...]:
        """Streams without a value."""
        return tuple(name for name, view in self.streams.items() if view.quality is Quality.MISSING)

    @property
    def staleness_ns(self) -> dict[str, int]:
        """How far each stream's data lies behind `at_ns`; streams without a value are left out."""
        found = {name: view.staleness_ns for name, view in self.streams.items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def skew_ns(self) -> int | None:
        """Spread of the times that the values belong to; 0 where all are exact or interpolated."""
        values = self.staleness_ns.values()
        return max(values) - min(values) if values else None


@dataclass(frozen=True, eq=False)
class Arrived:
    """The newest samples of each stream that had arrived by `by_ns`, oldest first."""

    by_ns: int
    streams: Mapping[str, tuple[Entry[Any], ...]]

    @property
    def missing(self) -> tuple[str, ...]:
        """Streams of which nothing had arrived."""
        return tuple(name for name, entries in self.streams.items() if not entries)

    @property
    def staleness_ns(self) -> dict[str, int]:
        """Age of each stream's newest sample at `by_ns`; without streams of which nothing had come."""
        return {name: self.by_ns - entries[-1].stamp_ns for name, entries in self.streams.items() if entries}

    @property
    def skew_ns(self) -> int | None:
        """Spread of the newest stamps."""
        values = self.staleness_ns.values()
        return max(values) - min(values) if values else None


class AlignedBuffer:
    """A `StreamBuffer` for each named stream, asked together."""

    def __init__(self, streams: Mapping[str, StreamSpec]) -> None:
        if not streams:
            raise InvalidInputError("aligned buffer", [Fault("streams", "none", "one or more")])
        self._buffers: dict[str, StreamBuffer[Any]] = {
            name: StreamBuffer(spec.config, spec.interpolate) for name, spec in streams.items()
        }

    def insert(self, stream: str, stamp_ns: int, arrival_ns: int, value: Any, sequence: int | None = None) -> Inserted:
        """See `StreamBuffer.insert`. Raises InvalidInputError for a stream that is not one of those named."""
        return self[stream].insert(stamp_ns, arrival_ns, value, sequence)

    def as_of(self, t_ns: int, known_by_ns: int | None = None) -> Snapshot:
        """Everything as it was at `t_ns`, told from all samples, or from those arrived by `known_by_ns`."""
        return Snapshot(t_ns, {name: b.as_of(t_ns, known_by_ns) for name, b in self._buffers.items()})

    def arrived_by(self, t_ns: int, newest: int | Mapping[str, int] = 1) -> Arrived:
        """What had arrived by `t_ns`: of each stream the `newest` samples, or as many as named, else 1."""
        many = newest if isinstance(newest, Mapping) else dict.fromkeys(self._buffers, newest)
        for name in many:
            self[name]
        return Arrived(t_ns, {name: b.arrived_by(t_ns, many.get(name, 1)) for name, b in self._buffers.items()})

    def clear(self) -> None:
        """Forget all samples of all streams, after time went back."""
        for buffer in self._buffers.values():
            buffer.clear()

    def stats(self) -> dict[str, BufferStats]:
        """Numbers of every stream."""
        return {name: buffer.stats() for name, buffer in self._buffers.items()}

    def __getitem__(self, stream: str) -> StreamBuffer[Any]:
        if stream not in self._buffers:
            fault = Fault("stream", repr(stream), f"one of {', '.join(self._buffers)}")
            raise InvalidInputError("aligned buffer", [fault])
        return self._buffers[stream]
