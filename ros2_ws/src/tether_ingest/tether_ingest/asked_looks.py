"""How hard decisions ask the eyes to look: handed to the stage, and said, for whoever reads or checks the recording."""

from __future__ import annotations

from dataclasses import asdict

from tether_ros.node import StageNode

from tether.codec import sensors
from tether.contracts import HybridAction, Stream
from tether.event_kinds import LOOK_HOW
from tether.ingest.asking import OWN, LookHow
from tether.ingest.camera import CameraIngest


class AskedLooks:
    """See `tether.ingest.asking`. An event of kind `LOOK_HOW` for every change; what cannot be done is counted."""

    def __init__(self, node: StageNode, stage: CameraIngest) -> None:
        self._node, self._stage = node, stage

    def begin_episode(self, start_ns: int) -> None:
        """Nothing is asked for any more; before the stage forgets."""
        if self._stage.asked.newest != OWN:
            self._say(start_ns, OWN)

    def decided(self, action: HybridAction, image_size_max: int | None) -> None:
        """See `CameraIngest.decided`."""
        answer = self._stage.decided(action, image_size_max)
        if answer.rejection is not None:
            self._node.complain(Stream.CAMERA, answer.rejection.reason.value, answer.rejection.detail)
        if answer.changed:
            self._say(answer.since_ns, answer.how)

    def _say(self, since_ns: int, how: LookHow) -> None:
        asked = [f"{name} {value:g}" for name, value in asdict(how).items() if value is not None]
        text = f"a decision asks for {', '.join(asked)}" if asked else "the eyes look as they do by themselves"
        self._node.event(sensors.Severity.INFO, LOOK_HOW, text, {"since_ns": since_ns, **asdict(how)})
