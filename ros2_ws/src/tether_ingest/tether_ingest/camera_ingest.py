"""sensor_msgs/Image or CompressedImage in, detections (and later tokens) of each picture out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.runtimes import RuntimeReporter
from tether_ros.streams import StreamReporter

from tether import topics
from tether.assembly import make_camera_ingest, profile
from tether.codec import convert, sensors
from tether.codec.convert.basics import latency_from
from tether.contracts import CameraModel, SampleRef, Stream
from tether.ingest.camera import CompressedImage, RawImage
from tether.lockstep import Needs, TickInputs
from tether_ingest.asked_looks import AskedLooks
from tether_ingest.eyes_governor import EyesGovernor

DECISION = "decision"


class CameraIngestNode(StageNode):
    """See `tether.ingest.camera`."""

    needs = Needs(streams=frozenset({Stream.CAMERA}), after_decision=frozenset({DECISION}))
    niceness = -3

    def __init__(self) -> None:
        super().__init__("camera_ingest")
        self._policy = self.param("policy", "classic", "policy whose detector looks at the pictures")
        self._profile = self.param("profile", "real", "name or file of the profile of the sensors")
        self._compressed = self.param("compressed", False, "take sensor_msgs/CompressedImage instead of Image")
        self._spares = self.param(
            "spare_looks",
            True,
            "in real time, look at fewer pictures under load and heat or where a decision asks for it",
        )

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        self._stage = make_camera_ingest(self._policy, noiseless_world=profile(self._profile).camera.is_noiseless)
        self._runtimes = RuntimeReporter(self, lambda: self._stage.runtimes)
        self._episode = self._received = 0
        self._camera: CameraModel | None = None
        self._infos: dict[int, CameraModel] = {}
        self._images: dict[int, RawImage | CompressedImage] = {}
        self._feature = self.outlet(topics.IMAGE_FEATURE)
        self._reporter = StreamReporter(self, Stream.CAMERA)
        self._asked = AskedLooks(self, self._stage)
        self._governor = EyesGovernor(self) if self._spares and self.mode is Mode.REALTIME else None
        self.world_inlets()
        self.inlet(topics.DECISION, self._on_decision, fed=self.mode is Mode.LOCKSTEP)
        self.inlet(topics.CAMERA_INFO, self._on_info)
        topic, parse = (
            (topics.COMPRESSED_IMAGE, sensors.compressed_image)
            if self._compressed
            else (topics.IMAGE, sensors.raw_image)
        )
        self.inlet(topic, self._taking(parse), on_missed=self._reporter.missed)

    def on_episode(self, start: Any) -> None:
        """Forget stamps; the intrinsics stay what they were."""
        self._episode = int(start.episode)
        self._received = 0
        self._asked.begin_episode(convert.to_ns(start.stamp))
        self._stage.reset()
        if self._governor is not None:
            self._governor.begin_episode()
        self._runtimes.begin(convert.to_ns(start.stamp))

    def on_tick(self, inputs: TickInputs) -> None:
        """Look at what is due, as the newest decision before this tick asks."""
        if DECISION in inputs.results:
            self._asked.decided(inputs.results[DECISION], None)
        for ref, (image, camera) in inputs.samples[Stream.CAMERA]:
            self._look(ref, image, camera, inputs.plan.stamp_ns)

    def _on_decision(self, msg: Any) -> None:
        action, episode = convert.action_from(msg.action), int(msg.action.episode)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(DECISION, episode, action.decision_id, action)
        elif episode == self._episode:
            self._asked.decided(action, None if self._governor is None else self._governor.image_size_max)
            if self._governor is not None:
                self._governor.decided(action, latency_from(msg))

    def _on_info(self, msg: Any) -> None:
        self._camera = sensors.camera_model_from(msg)
        if self.mode is Mode.LOCKSTEP:
            stamp_ns = convert.to_ns(msg.header.stamp)
            self._infos[stamp_ns] = self._camera
            self._pair(stamp_ns)

    def _taking(self, parse: Callable[[Any], RawImage | CompressedImage]) -> Callable[[Any], None]:
        def take(msg: Any) -> None:
            image = parse(msg)
            if self.mode is Mode.LOCKSTEP:
                self._images[image.stamp_ns] = image
                self._pair(image.stamp_ns)
                return
            if self.is_left_over(image.stamp_ns):
                return
            ref = SampleRef(Stream.CAMERA, image.stamp_ns, self._received)
            self._received += 1
            now_ns = self.now_ns()
            left_out = None if self._governor is None else self._governor.left_out(ref.stamp_ns)
            if left_out is None:
                self._look(ref, image, self._camera, now_ns)
            else:
                self._reporter.leave_out(ref.stamp_ns, now_ns, left_out)

        return take

    def _pair(self, stamp_ns: int) -> None:
        """In lockstep a picture counts as arrived once its camera_info has, too."""
        if stamp_ns in self._infos and stamp_ns in self._images:
            item = (self._images.pop(stamp_ns), self._infos.pop(stamp_ns))
            self.inbox().put_sample(Stream.CAMERA, stamp_ns, item)

    def _look(self, ref: SampleRef, image: RawImage | CompressedImage, camera: CameraModel | None, now_ns: int) -> None:
        start_ns = time.monotonic_ns()
        result = self._stage.ingest(image, camera, now_ns, ref.sequence)
        self._reporter.note(ref.stamp_ns, now_ns, result)
        latency: dict[str, int] = {}
        if self.mode is Mode.REALTIME:
            latency["decode"] = time.monotonic_ns() - start_ns
        if self._governor is not None and result.rejection is None:
            self._governor.looked(latency["decode"])
        self._feature.send(convert.image_feature_message(result.feature, self._episode, latency))
        self._runtimes.look(ref.stamp_ns)


def main() -> None:
    """Entry point."""
    sys.exit(run([CameraIngestNode]))
