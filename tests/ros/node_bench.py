"""One node of the graph under test, between publishers and listeners of the test's; and a camera before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from tether_ingest.camera_ingest import CameraIngestNode
from tether_ros import qos
from tether_ros.executor import DrainingExecutor
from tether_ros.node import StageNode

from tether import topics
from tether.assembly import skill_of_task
from tether.codec import convert, decode, encode, message, sensors
from tether.contracts import CameraModel, EpisodeSpec
from tether.topics import Topic

PATIENCE_S = 30.0
START_NS = 100_000_000_000


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
        self.tester = rclpy.create_node("tester")
        self._executor = DrainingExecutor(lambda: None)
        for node in (self.node, self.tester):
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
        self.tester.destroy_node()
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
            made = self.tester.create_publisher(qos.message_class(topic), topic.name, profile)
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

    def dropped(self) -> dict[str, int]:
        """Reason → count, by the newest status of the node's stream."""
        said = self.said[topics.MODALITY_STATUS.name]
        return dict(zip(said[-1].drop_reasons, map(int, said[-1].drop_counts), strict=True)) if said else {}

    def _listen(self, topic: Topic) -> None:
        kept = self.said[topic.name]
        self.tester.create_subscription(
            qos.message_class(topic),
            topic.name,
            lambda raw: kept.append(decode(raw, topic.type)),
            qos.subscriber_qos(topic, must_not_lose=True),
            raw=True,
        )


def start_message(episode: int = 0) -> Any:
    spec = EpisodeSpec("pick", "real", 0)
    return convert.episode_start_message(episode, START_NS, spec, "classic", False, skill_of_task("pick"))


WIDTH, HEIGHT = 64, 48
CAMERA = CameraModel(WIDTH, HEIGHT, np.array([[60.0, 0, 32], [0, 60.0, 24], [0, 0, 1]]))


def picture() -> np.ndarray:
    """Grey, with a block in the cube's colour."""
    rgb = np.full((HEIGHT, WIDTH, 3), 120, np.uint8)
    rgb[20:32, 30:42] = (204, 26, 26)
    return rgb


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
