"""Ingest nodes against publishers that sin: each sin is refused and named, and the node works on."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
import tether_ros.node
from PIL import Image
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from tether_fusion.fusion import FusionNode
from tether_ingest.camera_ingest import CameraIngestNode
from tether_ingest.imu_ingest import ImuIngestNode
from tether_policy.policy import PolicyNode
from tether_ros import qos
from tether_ros.executor import DrainingExecutor
from tether_ros.node import StageNode

from tether import topics
from tether.assembly import skill_of_task
from tether.codec import convert, decode, encode, message, sensors
from tether.contracts import (
    CameraModel,
    EpisodeSpec,
    Estimate,
    FusedState,
    ImuBatch,
    ImuSample,
    Primitive,
    SampleRef,
    Stream,
    TickPlan,
)
from tether.topics import Topic

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

PATIENCE_S = 30.0
START_NS = 100_000_000_000
STEP_NS = 5_000_000


class Bench:
    """One node of the graph, and a node of the test's that publishes and listens, in one executor.

    ROS time is /clock, which the test sets: nothing depends on how fast this machine is.
    """

    def __init__(self, domain: int) -> None:
        self._domain = domain
        self.said: dict[str, list[Any]] = {}
        self._publishers: dict[str, Any] = {}

    def start(self, kind: Callable[[], StageNode], hear: list[Topic], **parameters: Any) -> StageNode:
        words = ["--ros-args", "-p", "use_sim_time:=true", "-p", "wait_for_match:=false"]
        for name, value in parameters.items():
            words += ["-p", f"{name}:={value}"]
        rclpy.init(args=words, domain_id=self._domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = kind()
        self._tester = rclpy.create_node("tester")
        self._executor = DrainingExecutor(lambda: None)
        for node in (self.node, self._tester):
            self._executor.add_node(node)
        for topic in (topics.EVENTS, topics.MODALITY_STATUS, *hear):
            self.said[topic.name] = []
            self._listen(topic)
        assert self.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert self.node.trigger_activate() == TransitionCallbackReturn.SUCCESS
        return self.node

    def stop(self) -> None:
        if not hasattr(self, "node"):
            return
        self._executor.shutdown(timeout_sec=5.0)
        self.node.destroy_node()
        self._tester.destroy_node()
        rclpy.shutdown()

    def publish(self, topic: Topic, what: Any, best_effort: bool = False) -> None:
        """Publish a message or bytes once somebody listens to the topic."""
        self.publisher(topic, best_effort).publish(what if isinstance(what, bytes) else encode(what))
        self.spin(0.02)

    def publisher(self, topic: Topic, best_effort: bool = False) -> Any:
        if topic.name not in self._publishers:
            profile = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
            if not best_effort:
                profile = qos.publisher_qos(topic)
            made = self._tester.create_publisher(qos.message_class(topic), topic.name, profile)
            self._publishers[topic.name] = made
            if not best_effort:
                self.until(f"somebody listens to {topic.name}", lambda: made.get_subscription_count() > 0)
        return self._publishers[topic.name]

    def at(self, now_ns: int) -> None:
        """Set /clock and wait until the node knows."""

        def told() -> bool:
            self.publish(topics.CLOCK, sensors.clock_message(now_ns))
            return self.node.now_ns() == now_ns

        self.until(f"/clock at {now_ns}", told)

    def spin(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=0.005)

    def until(self, what: str, is_so: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (value := is_so()):
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s; events: {self.events()}"
            self._executor.spin_once(timeout_sec=0.02)
        return value

    def events(self, kind: str | None = None) -> list[str]:
        events = self.said[topics.EVENTS.name]
        return [f"{e.kind}: {e.text}" for e in events if kind is None or e.kind == kind]

    def event(self, kind: str, *words: str) -> str:
        """Wait for an event of a kind whose text holds all words."""
        return self.until(
            f"event {kind} with {words}",
            lambda: next((e for e in self.events(kind) if all(word in e for word in words)), None),
        )

    def _listen(self, topic: Topic) -> None:
        kept = self.said[topic.name]
        self._tester.create_subscription(
            qos.message_class(topic),
            topic.name,
            lambda raw: kept.append(decode(raw, topic.type)),
            qos.subscriber_qos(topic, must_not_lose=True),
            raw=True,
        )


@pytest.fixture
def bench(domain: int) -> Iterator[Bench]:
    made = Bench(domain)
    try:
        yield made
    finally:
        made.stop()


def start_message(episode: int = 0) -> Any:
    spec = EpisodeSpec("pick", "real", 0)
    return convert.episode_start_message(episode, START_NS, spec, "classic", False, skill_of_task("pick"))


# -- IMU ------------------------------------------------------------------------------------------------------------


def imu(stamp_ns: int, number: int, gyro_z: float = 0.0) -> Any:
    """A reading of a sensor at rest whose noise never repeats."""
    noise = 1e-3 * np.random.default_rng(number).standard_normal(6)
    gyro, accel = np.add(noise[:3], (0.0, 0.0, gyro_z)), np.add(noise[3:], (0.0, 0.0, 9.81))
    sample = ImuSample(SampleRef(Stream.IMU, stamp_ns, number), gyro, accel)
    return sensors.imu_message(sample)


class ImuBench:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._number = 0
        bench.start(ImuIngestNode, [topics.IMU_BATCH], batch_size=1, profile="real")

    def good(self, from_ns: int, count: int = 120) -> None:
        """Readings on time, until the last one comes out again; enough to prove units where they are not proven."""
        stamps = [from_ns + i * STEP_NS for i in range(count)]
        self.bench.at(stamps[-1])
        publisher = self.bench.publisher(topics.IMU)
        for stamp_ns in stamps:
            self._number += 1
            publisher.publish(encode(imu(stamp_ns, self._number)))
            self.bench.spin(0.004)
        self.bench.until("last reading comes out", lambda: stamps[-1] in self.stamps())

    def bad(self, msg: Any) -> None:
        self.bench.publish(topics.IMU, msg)

    def stamps(self) -> list[int]:
        return [convert.to_ns(ref.stamp) for batch in self.bench.said[topics.IMU_BATCH.name] for ref in batch.samples]


def test_imu_node_refuses_each_sin_by_name_and_works_on(bench: Bench) -> None:
    node = ImuBench(bench)
    node.good(START_NS)
    now_ns = START_NS + 120 * STEP_NS
    bench.at(now_ns)

    node.bad(imu(now_ns, 1000, gyro_z=float("nan")))
    bench.event("stream_fault", "imu", "not_finite")
    node.bad(imu(0, 1001))
    bench.event("stream_fault", "imu", "zero_stamp")
    node.bad(imu(now_ns + 3_000_000_000, 1002))
    bench.event("stream_fault", "imu", "future_stamp")
    node.bad(imu(now_ns - 30_000_000_000, 1003))
    bench.event("stream_fault", "imu", "late_stamp")
    node.bad(b"\x00\x01\x00\x00 this is no sensor_msgs/Imu")
    bench.event("malformed_message", topics.IMU.name)

    before = len(node.stamps())
    node.good(now_ns + STEP_NS, count=10)
    assert len(node.stamps()) >= before + 10
    assert not {0, now_ns + 3_000_000_000, now_ns - 30_000_000_000} & set(node.stamps())
    status = bench.until("status", lambda: bench.said[topics.MODALITY_STATUS.name])[-1]
    assert status.modality == "imu"


def test_clock_that_jumps_back_is_one_event_and_the_node_works_on(bench: Bench) -> None:
    node = ImuBench(bench)
    node.good(START_NS)
    node.good(START_NS // 2)
    jumps = bench.events("clock_jump")
    assert len(jumps) == 1, bench.events()
    assert "buffers cleared" in jumps[0]
    assert "imu" in jumps[0]


def test_best_effort_publisher_against_reliable_subscriber_is_an_event(bench: Bench) -> None:
    bench.start(ImuIngestNode, [topics.IMU_BATCH], mode="lockstep", profile="real")
    bench.publisher(topics.IMU, best_effort=True)
    assert "RELIABILITY" in bench.event("incompatible_qos", topics.IMU.name).upper()


def test_live_node_takes_a_best_effort_publisher(bench: Bench) -> None:
    bench.start(ImuIngestNode, [topics.IMU_BATCH], batch_size=1, profile="real")
    publisher = bench.publisher(topics.IMU, best_effort=True)
    bench.until("match", lambda: publisher.get_subscription_count() > 0)
    bench.at(START_NS)
    bench.publish(topics.IMU, imu(START_NS, 1))
    bench.until("a batch", lambda: bench.said[topics.IMU_BATCH.name])
    assert not bench.events("incompatible_qos")


# -- camera ---------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, PADDING = 64, 48, 16
CAMERA = CameraModel(WIDTH, HEIGHT, np.array([[60.0, 0, 32], [0, 60.0, 24], [0, 0, 1]]))


def picture() -> np.ndarray:
    """Grey, with a block in the cube's colour."""
    rgb = np.full((HEIGHT, WIDTH, 3), 120, np.uint8)
    rgb[20:32, 30:42] = (204, 26, 26)
    return rgb


def bgr8_with_padding(stamp_ns: int) -> Any:
    rows = np.full((HEIGHT, WIDTH * 3 + PADDING), 255, np.uint8)
    rows[:, : WIDTH * 3] = picture()[:, :, ::-1].reshape(HEIGHT, -1)
    header = sensors.header_message(stamp_ns, CAMERA.frame_id)
    return message("sensor_msgs/msg/Image")(header, HEIGHT, WIDTH, "bgr8", 0, WIDTH * 3 + PADDING, rows.reshape(-1))


def plain(stamp_ns: int) -> Any:
    """No two are the same bit for bit, as none of a real camera's are."""
    header, rgb = sensors.header_message(stamp_ns, CAMERA.frame_id), picture()
    rgb[0, 0] = stamp_ns // 1_000_000 % 251
    return message("sensor_msgs/msg/Image")(header, HEIGHT, WIDTH, "rgb8", 0, WIDTH * 3, rgb.reshape(-1))


class CameraBench:
    def __init__(self, bench: Bench, **parameters: Any) -> None:
        self.bench = bench
        bench.start(CameraIngestNode, [topics.IMAGE_FEATURE], **parameters)
        self.topic = topics.COMPRESSED_IMAGE if parameters.get("compressed") else topics.IMAGE
        bench.at(START_NS)
        bench.publish(topics.CAMERA_INFO, sensors.camera_info_message(CAMERA, START_NS))
        bench.spin(0.2)

    def look(self, msg: Any) -> Any:
        """What comes of one picture."""
        stamp_ns = convert.to_ns(msg.header.stamp)
        self.bench.at(stamp_ns)

        def seen() -> Any:
            features = self.bench.said[topics.IMAGE_FEATURE.name]
            return next((f for f in features if convert.to_ns(f.sample.stamp) == stamp_ns), None)

        self.bench.publish(self.topic, msg)
        return self.bench.until(f"feature of {stamp_ns}", seen)


def test_bgr_picture_with_row_padding_is_seen_as_the_plain_one(bench: Bench) -> None:
    node = CameraBench(bench)
    padded = node.look(bgr8_with_padding(START_NS))
    straight = node.look(plain(START_NS + 33_000_000))
    assert padded.accepted, padded.rejection
    assert straight.accepted, straight.rejection
    assert padded.detections.tobytes() == straight.detections.tobytes()
    assert len(padded.detections), "the block in the cube's colour is seen"


def test_camera_node_refuses_each_sin_by_name_and_works_on(bench: Bench) -> None:
    node = CameraBench(bench)
    short = plain(START_NS)
    short.data = short.data[:-5]
    refused = node.look(short)
    assert not refused.accepted
    assert "short_data" in refused.rejection
    bench.event("stream_fault", "camera", "short_data")

    unknown = plain(START_NS + 10_000_000)
    unknown.encoding = "purple8"
    assert "unknown_encoding" in node.look(unknown).rejection
    bench.publish(topics.IMAGE, b"\x00\x01\x00\x00 no picture")
    bench.event("malformed_message", topics.IMAGE.name)
    good = plain(START_NS + 40_000_000)
    assert node.look(good).accepted
    good.header = sensors.header_message(START_NS + 73_000_000, CAMERA.frame_id)
    assert "constant" in node.look(good).rejection
    bench.event("stream_fault", "camera", "constant")
    assert node.look(plain(START_NS + 106_000_000)).accepted


def test_compressed_picture_is_known_by_its_bytes_whatever_its_format_says(bench: Bench) -> None:
    node = CameraBench(bench, compressed=True)
    file = io.BytesIO()
    Image.fromarray(picture()).save(file, "PNG")
    header = sensors.header_message(START_NS, CAMERA.frame_id)
    kind = message("sensor_msgs/msg/CompressedImage")
    lying = kind(header, "bgr8; jpeg compressed bgr8", np.frombuffer(file.getvalue(), np.uint8))
    seen = node.look(lying)
    assert seen.accepted, seen.rejection
    assert len(seen.detections)

    later = sensors.header_message(START_NS + 40_000_000, CAMERA.frame_id)
    torn = node.look(kind(later, "png", np.frombuffer(file.getvalue()[:60], np.uint8)))
    assert not torn.accepted
    assert torn.rejection


# -- between stages -------------------------------------------------------------------------------------------------


def test_fusion_refuses_malformed_and_non_finite_batches_and_works_on(bench: Bench) -> None:
    bench.start(FusionNode, [topics.FUSED_STATE])
    bench.at(START_NS)
    bench.publish(topics.EPISODE_START, start_message())
    bench.until("states", lambda: bench.said[topics.FUSED_STATE.name])

    bench.publish(topics.IMU_BATCH, b"\x00\x01\x00\x00\xff\xff\xff\xff")
    bench.event("malformed_message", topics.IMU_BATCH.name)
    good = convert.imu_batch_message(batch(0, [1.0, 2.0, 3.0]))
    bench.publish(topics.IMU_BATCH, good)
    bench.until("the good batch is used", lambda: bench.said[topics.FUSED_STATE.name][-1].imu_window.size == 6)
    bench.spin(1.1)  # events of a kind come at most once a second
    bench.publish(topics.IMU_BATCH, convert.imu_batch_message(batch(0, [1.0, float("nan"), 3.0])))
    bench.event("malformed_message", "angular_velocity")
    bench.publish(topics.IMU_BATCH, convert.imu_batch_message(batch(7, [1.0, 2.0, 3.0])))
    bench.publish(topics.IMU_BATCH, good)
    window = bench.until(
        "the next good batch is used",
        lambda: next((s for s in bench.said[topics.FUSED_STATE.name] if s.imu_window.size == 12), None),
    ).imu_window
    assert np.isfinite(window).all()
    bench.spin(0.2)
    assert bench.said[topics.FUSED_STATE.name][-1].imu_window.size == 12, "the batch of another episode is left out"


def batch(episode: int, gyro: list[float]) -> Any:
    sample = ImuSample(SampleRef(Stream.IMU, START_NS, 0), np.array(gyro), np.array([0.0, 0.0, 9.81]))
    return ImuBatch(episode, 0, START_NS, (sample,))


def test_node_that_was_cleaned_up_is_configured_again_and_active_again_without_doubled_timers(bench: Bench) -> None:
    node = bench.start(FusionNode, [topics.FUSED_STATE])
    good = TransitionCallbackReturn.SUCCESS
    assert node.trigger_deactivate() == good
    assert node.trigger_activate() == good
    assert len(list(node.timers)) == 2, "the status and the decisions"
    assert node.trigger_deactivate() == good
    assert node.trigger_cleanup() == good
    assert not list(node.timers)
    assert not list(node.subscriptions) or all("clock" in s.topic_name for s in node.subscriptions)
    assert node.trigger_configure() == good
    assert node.trigger_activate() == good
    bench.at(START_NS)
    bench.publish(topics.EPISODE_START, start_message())
    bench.until("states", lambda: bench.said[topics.FUSED_STATE.name])


def test_policy_that_refuses_its_own_decision_in_lockstep_ends_and_says_so(bench: Bench) -> None:
    node = bench.start(PolicyNode, [topics.POLICY_OUTPUT], mode="lockstep", policy="classic")
    skill = dataclasses.replace(skill_of_task("pick"), primitive_mask=np.zeros(len(Primitive), np.bool_))
    none = np.zeros(0, np.float32)
    state = FusedState(
        0, START_NS, (), {}, Estimate.none(START_NS), None, np.zeros((6, 0)), none.reshape(0, 6), none, skill
    )
    bench.publish(topics.EPISODE_START, start_message())
    bench.publish(topics.TICK_PLAN, convert.tick_plan_message(TickPlan(0, 0, START_NS, (), 0)))
    bench.publish(topics.FUSED_STATE, convert.fused_state_message(state, 0))
    bench.event("stage_failed", "decision 0", "primitive")
    assert node.finished
    assert node.exit_status == 1
    assert not bench.said[topics.POLICY_OUTPUT.name]


def test_node_in_lockstep_names_the_sample_that_it_waits_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tether_ros.node, "WAITING_S", 0.2)
    bench.start(ImuIngestNode, [topics.IMU_BATCH], mode="lockstep", profile="real")
    bench.publish(topics.EPISODE_START, start_message())
    due = (SampleRef(Stream.IMU, START_NS, 0),)
    bench.publish(topics.TICK_PLAN, convert.tick_plan_message(TickPlan(0, 0, START_NS, due, 0)))
    bench.event("waiting", "tick 0 of episode 0", f"imu {START_NS}")
    bench.publish(topics.IMU, imu(START_NS, 1))
    bench.until("the batch", lambda: bench.said[topics.IMU_BATCH.name])


@pytest.mark.parametrize("parameter", ["mode:=sometimes", "policy:=3", "wait_for_match:=perhaps"])
def test_parameter_that_is_refused_ends_the_process_with_2_and_is_named(domain: int, parameter: str) -> None:
    words = [sys.executable, "-c", "from tether_fusion.fusion import main; main()", "--ros-args", "-p", parameter]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2, done.stderr
    assert parameter.split(":=")[int(parameter.startswith("mode"))] in done.stderr
    assert "Traceback" not in done.stderr


def test_configuration_that_is_refused_leaves_nothing_behind(domain: int, bench: Bench) -> None:
    rclpy.init(
        args=["--ros-args", "-p", "policy:=nobody"], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
    )
    node = FusionNode()
    try:
        assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
        assert not list(node.timers)
    finally:
        node.destroy_node()
        rclpy.shutdown()
