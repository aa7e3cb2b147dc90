"""sensor_msgs/Imu in, batches of believable samples out: one a tick in lockstep, one every few readings live."""

from __future__ import annotations

import sys
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.streams import StreamReporter

from tether import topics
from tether.assembly import make_imu_stage
from tether.codec import convert, sensors
from tether.contracts import SampleRef, Stream
from tether.ingest.imu import ImuReading
from tether.lockstep import Needs, TickInputs


class ImuIngestNode(StageNode):
    """See `tether.ingest.imu`."""

    needs = Needs(streams=frozenset({Stream.IMU}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("imu_ingest")
        self._profile = self.param("profile", "real", "name or file of the profile of the sensors")
        self._batch_size = self.param("batch_size", 2, "readings in one batch in real time")

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        self._stage = make_imu_stage(self._profile)
        self._episode = self._tick = self._received = 0
        self._readings: list[tuple[SampleRef, ImuReading]] = []
        self._batch = self.outlet(topics.IMU_BATCH)
        self._reporter = StreamReporter(self, Stream.IMU)
        self.world_inlets()
        self.inlet(topics.IMU, self._on_imu, on_missed=self._reporter.missed)

    def on_episode(self, start: Any) -> None:
        """Forget the window and count anew."""
        self._episode = int(start.episode)
        self._tick = self._received = 0
        self._readings.clear()
        self._stage.reset()

    def on_tick(self, inputs: TickInputs) -> None:
        """Judge what is due."""
        self._publish(inputs.plan.tick, inputs.plan.stamp_ns, inputs.samples[Stream.IMU])

    def _on_imu(self, msg: Any) -> None:
        reading = sensors.imu_reading(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.IMU, reading.stamp_ns, reading)
            return
        if self.is_left_over(reading.stamp_ns):
            return
        self._readings.append((SampleRef(Stream.IMU, reading.stamp_ns, self._received), reading))
        self._received += 1
        if len(self._readings) >= self._batch_size:
            self._publish(self._tick, self.now_ns(), self._readings)
            self._readings = []
            self._tick += 1

    def _publish(self, tick: int, now_ns: int, readings: list[tuple[SampleRef, ImuReading]]) -> None:
        batch = self._stage.step(self._episode, tick, now_ns, readings)
        for (ref, _), result in zip(readings, self._stage.last_results, strict=True):
            self._reporter.note(ref.stamp_ns, now_ns, result)
        self._batch.send(convert.imu_batch_message(batch))


def main() -> None:
    """Entry point."""
    sys.exit(run([ImuIngestNode]))
