"""A recorded run, sorted for rebuilding: raw samples by stream and stamp, results of each stage by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether import topics
from tether.bags.reader import open_bag
from tether.bags.report import CorruptMessageError, Report
from tether.codec import convert, decode, sensors
from tether.contracts import CameraModel, SampleRef, Stream
from tether.errors import Fault, InvalidInputError
from tether.event_kinds import ARBITER_THRESHOLD, LOOK_HOW, MODEL_RUNTIMES, RUN_CONFIG
from tether.ingest.asking import Asked, LookHow
from tether.ingest.camera import CameraIngest, CompressedImage, RawImage
from tether.runtimes.timeline import StampClock
from tether.topics import Topic

_TOPICS = {
    topic.name: topic
    for topic in (
        topics.IMU,
        topics.JOINT_STATES,
        topics.IMAGE,
        topics.COMPRESSED_IMAGE,
        topics.CAMERA_INFO,
        topics.EPISODE_START,
        topics.TICK_PLAN,
        topics.TRUTH,
        topics.EXECUTED,
        topics.IMU_BATCH,
        topics.IMAGE_FEATURE,
        topics.FUSED_STATE,
        topics.SKILL_ORDER,
        topics.SKILL_REPORT,
        topics.POLICY_OUTPUT,
        topics.DECISION,
        topics.PROPOSED,
        topics.VERDICT,
        topics.EVENTS,
    )
}
_RESULTS = {
    topics.FUSED_STATE: ("states", "decision_id"),
    topics.SKILL_ORDER: ("orders", "decision_id"),
    topics.SKILL_REPORT: ("reports", "decision_id"),
    topics.POLICY_OUTPUT: ("outputs", "decision_id"),
    topics.DECISION: ("decisions", "decision_id"),
    topics.IMU_BATCH: ("batches", "tick"),
    topics.PROPOSED: ("proposed", "tick"),
    topics.VERDICT: ("verdicts", "tick"),
    topics.TICK_PLAN: ("plans", "tick"),
}
"""Topic → table of an episode in which its messages are kept, and the field that numbers them."""


@dataclass(eq=False)
class Episode:
    """What the stages said in one episode, by decision id or tick."""

    start: Any
    states: dict[int, Any] = field(default_factory=dict)
    orders: dict[int, Any] = field(default_factory=dict)
    reports: dict[int, Any] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)
    decisions: dict[int, Any] = field(default_factory=dict)
    batches: dict[int, Any] = field(default_factory=dict)
    proposed: dict[int, Any] = field(default_factory=dict)
    verdicts: dict[int, Any] = field(default_factory=dict)
    plans: dict[int, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Recording:
    """A whole run. samples: stream → stamp → message as recorded; pictures are kept as what ingest makes of them."""

    report: Report
    episodes: dict[int, Episode] = field(default_factory=dict)
    samples: dict[Stream, dict[int, Any]] = field(default_factory=lambda: {stream: {} for stream in Stream})
    features: dict[int, Any] = field(default_factory=dict)
    run_config: dict[str, Any] | None = None
    thresholds: dict[int, float] = field(default_factory=dict)
    """Episode → threshold of its arbiter."""


class _Loader:
    """Takes messages in log-time order. Pictures wait until the policy, and so the detector, is known."""

    def __init__(self, recording: Recording, make_camera: Callable[[str], CameraIngest], clock: StampClock) -> None:
        self._recording = recording
        self._clock = clock
        self._make_camera = make_camera
        self._camera: CameraIngest | None = None
        self._infos: dict[int, CameraModel] = {}
        self._newest_info: CameraModel | None = None
        self._waiting: dict[int, RawImage | CompressedImage] = {}
        self._early: list[tuple[RawImage | CompressedImage, CameraModel | None]] = []
        self._results: list[tuple[str, int, int, Any]] = []

    def take(self, topic: Topic, msg: Any) -> None:
        """Sort one message in."""
        r = self._recording
        if topic is topics.IMU:
            r.samples[Stream.IMU][convert.to_ns(msg.header.stamp)] = msg
        elif topic is topics.JOINT_STATES:
            r.samples[Stream.JOINTS][convert.to_ns(msg.header.stamp)] = msg
        elif topic in (topics.TRUTH, topics.EXECUTED):
            r.samples[Stream(msg.sample.stream)][convert.to_ns(msg.sample.stamp)] = msg
        elif topic is topics.IMAGE_FEATURE:
            r.features[convert.to_ns(msg.sample.stamp)] = msg
        elif topic is topics.CAMERA_INFO:
            self._take_info(convert.to_ns(msg.header.stamp), sensors.camera_model_from(msg))
        elif topic is topics.IMAGE:
            self._take_picture(sensors.raw_image(msg))
        elif topic is topics.COMPRESSED_IMAGE:
            self._take_picture(sensors.compressed_image(msg))
        elif topic is topics.EPISODE_START:
            r.episodes[int(msg.episode)] = Episode(msg)
            self._take_policy(msg.policy)
        elif topic is topics.EVENTS:
            if msg.kind == RUN_CONFIG and r.run_config is None:
                r.run_config = sensors.event_data(msg)
            elif msg.kind == ARBITER_THRESHOLD:
                data = sensors.event_data(msg)
                r.thresholds[int(data["episode"])] = float(data["threshold"])
        else:
            table, number = _RESULTS[topic]
            numbered = msg.action if topic in (topics.POLICY_OUTPUT, topics.DECISION) else msg
            self._results.append((table, int(numbered.episode), int(getattr(numbered, number)), msg))

    def _take_policy(self, name: str) -> None:
        """The first picture of a run and its episode start are published at once and may be logged either way round."""
        if self._camera is None:
            self._camera = self._make_camera(name)
            early, self._early = self._early, []
            for picture, camera in early:
                self._look(picture, camera)

    def _take_info(self, stamp_ns: int, camera: CameraModel) -> None:
        self._newest_info = camera
        picture = self._waiting.pop(stamp_ns, None)
        if picture is not None:
            self._look(picture, camera)
        else:
            self._infos[stamp_ns] = camera

    def _take_picture(self, picture: RawImage | CompressedImage) -> None:
        camera = self._infos.pop(picture.stamp_ns, None)
        if camera is not None:
            self._look(picture, camera)
        else:
            self._waiting[picture.stamp_ns] = picture

    def _look(self, picture: RawImage | CompressedImage, camera: CameraModel | None) -> None:
        """What ingest makes of the content of a picture; whether its stamp was admitted stands in the recording."""
        if self._camera is None:
            self._early.append((picture, camera))
            return
        ref = SampleRef(Stream.CAMERA, picture.stamp_ns, 0)
        self._clock.stamp_ns = picture.stamp_ns
        self._recording.samples[Stream.CAMERA][picture.stamp_ns] = self._camera.look(picture, camera, ref).feature

    def finish(self) -> None:
        """Pictures without a camera_info of their own stamp had the newest one; results go to their episodes."""
        for picture in self._waiting.values():
            self._look(picture, self._newest_info)
        for table, episode, number, msg in self._results:
            if episode in self._recording.episodes:
                getattr(self._recording.episodes[episode], table)[number] = msg


@dataclass(frozen=True)
class RuntimeChange:
    """A node says what runs a model. since_ns: the stamp from which on, None in runs from before that was said."""

    node: str
    label: str
    since_ns: int | None


def recorded_runtimes(path: Path) -> dict[str, list[RuntimeChange]]:
    """SHA-256 of each model that ran → what ran it, as it was said; empty for runs from before this was said."""
    found: dict[str, list[RuntimeChange]] = {}
    for event in _events_of(path, MODEL_RUNTIMES):
        data = sensors.event_data(event)
        runtimes, since_ns = data.get("runtimes"), data.get("since_ns")
        for sha256, label in runtimes.items() if isinstance(runtimes, dict) else ():
            if isinstance(label, str):
                change = RuntimeChange(str(event.node), label, since_ns if isinstance(since_ns, int) else None)
                found.setdefault(sha256, []).append(change)
    return found


def recorded_looks(path: Path) -> Asked:
    """How hard the eyes were asked to look in a run, as camera ingest said it; nothing in runs from before it did."""
    changes: list[tuple[int, LookHow]] = []
    for event in _events_of(path, LOOK_HOW):
        data = sensors.event_data(event)
        since_ns = data.pop("since_ns", None)
        if isinstance(since_ns, int) and data.keys() == {"confidence", "iou", "image_size"}:
            changes.append((since_ns, LookHow(**data)))
    return Asked(changes)


def _events_of(path: Path, kind: str) -> Iterator[Any]:
    """Events of a kind, in log-time order; what cannot be read is counted by the reader's report."""
    with open_bag(path) as bag:
        for message in bag.messages(topics=[name for name in bag.topics if name == topics.EVENTS.name]):
            try:
                event = decode(message.raw, topics.EVENTS.type)
                if event.kind == kind:
                    sensors.event_data(event)
                    yield event
            except (ValueError, CorruptMessageError):
                continue


def load_recording(path: Path, make_camera: Callable[[str], CameraIngest], clock: StampClock) -> Recording:
    """Read a bag of a run. make_camera: policy name → its camera ingest. clock: goes by what is looked at.

    Raises InvalidInputError where the bag holds no run of Tether.
    """
    with open_bag(path) as bag:
        wanted = [name for name in bag.topics if name in _TOPICS]
        recording = Recording(bag.report())
        loader = _Loader(recording, make_camera, clock)
        for message in bag.messages(topics=wanted):
            try:
                topic = _TOPICS[message.topic]
                loader.take(topic, decode(message.raw, topic.type))
            except (ValueError, CorruptMessageError):
                continue  # counted by the reader's report; a sample that a decision needs is then named as missing
        loader.finish()
        recording.report = bag.report()
    if not any(episode.states for episode in recording.episodes.values()):
        found = f"{len(recording.episodes)} episodes, topics {', '.join(sorted(bag.topics)) or 'none'}"
        fault = Fault(
            str(path),
            found,
            f"a run of Tether with {topics.EPISODE_START.name} and {topics.FUSED_STATE.name}",
        )
        raise InvalidInputError("recording to check", [fault], "record with `tether sim` or launch with record:=true")
    return recording
