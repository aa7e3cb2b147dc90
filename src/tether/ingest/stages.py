"""The IMU stage of the graph: what arrived during a tick, judged, as one batch."""

from __future__ import annotations

from collections.abc import Sequence

from tether.contracts import ImuBatch, ImuSample, SampleRef
from tether.ingest.imu import ImuConfig, ImuIngest, ImuReading, ImuResult


class ImuStage:
    """IMU readings in, one batch of believable samples per tick out."""

    def __init__(self, config: ImuConfig) -> None:
        self.ingest = ImuIngest(config)
        self.last_results: list[ImuResult] = []
        """What became of each reading of the last tick, for events and health."""

    def reset(self) -> None:
        """Start an episode."""
        self.ingest.reset()
        self.last_results = []

    def step(
        self, episode: int, tick: int, stamp_ns: int, readings: Sequence[tuple[SampleRef, ImuReading]]
    ) -> ImuBatch:
        """Judge the readings that came during a tick; samples are in order of their stamps."""
        self.last_results = [self.ingest.ingest(reading, stamp_ns, ref.sequence) for ref, reading in readings]
        samples = [r.sample for r in self.last_results if r.sample is not None]
        samples.sort(key=lambda s: s.ref.stamp_ns)
        newest = samples[-1].ref.stamp_ns if samples else stamp_ns
        return ImuBatch(episode, tick, newest, tuple(samples))


def readings_of(samples: Sequence[ImuSample]) -> list[tuple[SampleRef, ImuReading]]:
    """A world's IMU samples as the readings their messages would carry."""
    return [(sample.ref, ImuReading.of(sample)) for sample in samples]
