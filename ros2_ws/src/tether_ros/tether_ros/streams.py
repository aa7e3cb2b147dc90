"""What a node says of a sensor stream: events for what was refused or lost, and a status message every second."""

from __future__ import annotations

import time
from typing import Protocol

from tether import topics
from tether.codec import sensors
from tether.contracts import JointSample, SampleRef, Stream
from tether.ingest.admission import ClockJump
from tether.ingest.health import StreamHealth
from tether.ingest.joints import JointIngest, JointReading
from tether.ingest.rejection import Reason, Rejection
from tether.lockstep import TickInputs
from tether_ros.node import Mode, StageNode

_PERIOD_S = 1.0


class Judged(Protocol):
    """What ingest says of one sample; the results of all three sensors have this shape."""

    @property
    def rejection(self) -> Rejection | None:
        """Why it was refused."""

    @property
    def jump(self) -> ClockJump | None:
        """Time went back before it, and buffers were cleared."""

    @property
    def gap_ns(self) -> int | None:
        """A drop-out came before it."""


class StreamReporter:
    """Counts the samples of one stream for `node`, and reports."""

    def __init__(self, node: StageNode, stream: Stream) -> None:
        self._node = node
        self._stream = stream
        self._health = StreamHealth(stream.value, time.monotonic_ns())
        self._status = node.outlet(topics.MODALITY_STATUS)
        node.optional(self._status)
        node.every(_PERIOD_S, self._report)

    def note(self, stamp_ns: int, now_ns: int, result: Judged) -> None:
        """Count one sample that came at `now_ns` of the clock of the stamps, and say what is worth keeping."""
        rejection = result.rejection
        if result.jump is not None:
            self._health.clear_stamps()
            text = f"{self._stream.value}: {result.jump}; buffers cleared"
            self._node.event(sensors.Severity.WARN, "clock_jump", text)
        if result.gap_ns is not None:
            self._node.complain(self._stream, "drop_out", f"nothing for {result.gap_ns * 1e-6:.0f} ms")
        if rejection is not None:
            self._node.complain(self._stream, rejection.reason.value, rejection.detail)
        self._health.note(stamp_ns, now_ns, time.monotonic_ns(), None if rejection is None else rejection.reason)

    def leave_out(self, stamp_ns: int, now_ns: int, reason: Reason) -> None:
        """Count one sample that nothing is wrong with, and that nobody looked at."""
        self._health.note(stamp_ns, now_ns, time.monotonic_ns(), reason)

    def missed(self, samples: int) -> None:
        """Count samples that were published and never came to be taken."""
        if self._node.active:
            self._health.missed(samples)

    def _report(self) -> None:
        now_ns = self._node.now_ns()
        health = self._health.report(now_ns, time.monotonic_ns())
        self._status.send(sensors.modality_status_message(health, now_ns))


class JointInlet:
    """/joint_states for a node: judged, and handed over tick by tick in lockstep or as pending samples live."""

    def __init__(self, node: StageNode, ingest: JointIngest) -> None:
        self._node = node
        self._ingest = ingest
        self._reporter = StreamReporter(node, Stream.JOINTS)
        self._pending: list[JointSample] = []
        node.inlet(topics.JOINT_STATES, self._on_message, on_missed=self._reporter.missed)

    def reset(self) -> None:
        """Start an episode."""
        self._ingest.reset()
        self._pending = []

    def due(self, inputs: TickInputs) -> list[JointSample]:
        """Lockstep: the believable samples among those that are due."""
        due = inputs.samples[Stream.JOINTS]
        return [s for ref, reading in due if (s := self._judge(reading, inputs.plan.stamp_ns, ref)) is not None]

    def take(self) -> list[JointSample]:
        """Real time: the believable samples that came since the last call."""
        taken, self._pending = self._pending, []
        return taken

    def _on_message(self, msg: object) -> None:
        reading = sensors.joint_reading(msg)
        if self._node.mode is Mode.LOCKSTEP:
            self._node.inbox().put_sample(Stream.JOINTS, reading.stamp_ns, reading)
            return
        if self._node.is_left_over(reading.stamp_ns):
            return
        sample = self._judge(reading, self._node.now_ns(), None)
        if sample is not None:
            self._pending.append(sample)

    def _judge(self, reading: JointReading, now_ns: int, ref: SampleRef | None) -> JointSample | None:
        result = self._ingest.ingest(reading, now_ns, None if ref is None else ref.sequence)
        self._reporter.note(reading.stamp_ns, now_ns, result)
        return result.sample
