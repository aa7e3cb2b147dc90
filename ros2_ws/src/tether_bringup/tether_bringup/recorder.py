"""Records a run: every topic of `tether.topics.RECORDED`, as serialised bytes, into a rosbag2 MCAP bag.

Log time is the time of receipt: in real time when DDS received the message, however long it then waited for this
process's turn, with the sender's time as publish time; in lockstep the world's (/clock). The lifecycle manager has
little time to bring nodes down: a bag that a slow disk has not taken by then is finished before the process ends.
A subscription asks for what our own publishers offer; where a foreign publisher offers less, it is made anew with that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcap.writer import CompressionType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from tether_ros import qos
from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import __version__, topics
from tether.bags.report import BagError
from tether.bags.world_times import WorldTimes
from tether.bags.writer import BagWriter, RecordingSummary, WriterOptions
from tether.codec import convert, decode, sensors
from tether.lockstep import Needs, TickInputs
from tether.topics import Kind, Topic
from tether_bringup.bag_qos import bag_profiles

LOOK_S = 0.5
"""How often publishers' offers, drops and the state of the recording are looked at."""
QUICK_S = 0.4
"""The manager brings all nodes down within 2 s; the recorder may use this much of it to finish the bag."""
DEPTH, PICTURE_DEPTH = 2000, 60
_COMPRESSION = {Mode.REALTIME: CompressionType.LZ4, Mode.LOCKSTEP: CompressionType.ZSTD}
"""In real time the graph needs the processor: zstd takes 4 ms for a noisy picture of 640x480 and saves a quarter of its
bytes, lz4 takes 0.3 ms and saves none; of everything else both save five sixths or more."""


class RecorderNode(StageNode):
    """See the module."""

    needs = Needs()

    def __init__(self) -> None:
        super().__init__("recorder")
        self._bag = self.param("bag", "runs/launch/bag", "folder to record into; if it is taken, NAME-2, NAME-3, …")
        self._writer: BagWriter | None = None
        self._subscriptions_by_topic: dict[str, Subscription[Any]] = {}
        self._loosened: dict[str, QoSProfile] = {}
        self._to_renew: set[str] = set()
        self._world_times: WorldTimes | None = None
        self._finishing: list[BagWriter] = []
        self._dropped_said = 0
        self._failure: str | None = None
        self._failure_said = False

    def build(self) -> None:
        """Make the bag and subscribe; recording begins here, so that nothing latched is missed."""
        path = free_folder(Path(self._bag))
        about = {"recorder": f"tether {__version__}", "mode": self.mode.value}
        options = WriterOptions(compression=_COMPRESSION[self.mode])
        self._writer = BagWriter(path, options, custom_data=about, on_failure=self._on_failure)
        self._undo.append(self._end)
        if self.mode is Mode.LOCKSTEP:
            self._world_times = WorldTimes(self._writer.write)
        for topic in topics.RECORDED:
            self._writer.add_topic(topic.name, topic.type, bag_profiles([qos.publisher_qos(topic)]))
            self._subscribe(topic, asked_for(topic))
        timer = self.create_timer(LOOK_S, self._look, clock=self.steady)
        self._undo.append(lambda: self.destroy_timer(timer))
        self.get_logger().info(f"recording into {path}")

    def on_episode(self, start: Any) -> None:
        """Nothing is remembered between episodes."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Never called: the recorder needs nothing."""

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """A bag that has been finished is not gone on with: clean up and configure for a new one."""
        if self._writer is None:
            self.get_logger().error("not activated: the bag is finished; clean up and configure to begin a new one")
            return TransitionCallbackReturn.FAILURE
        return super().on_activate(state)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        """The bag is finished here: the recorder goes down last, and what follows is not part of the run."""
        result = super().on_deactivate(state)
        self._end()
        return result

    def destroy_node(self) -> None:
        """The process is about to end: whatever is not on the disk yet gets there first."""
        self._end()
        for writer in self._finishing:
            try:
                self._say_recorded(writer.close())
            except BagError as error:
                self.get_logger().error(str(error))
        self._finishing.clear()
        super().destroy_node()

    def _subscribe(self, topic: Topic, profile: QoSProfile) -> None:
        known = self._subscriptions_by_topic.pop(topic.name, None)
        if known is not None:
            self.destroy_subscription(known)
        subscription = self.create_subscription(
            qos.message_class(topic),
            topic.name,
            self._taker(topic),
            profile,
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=lambda info: self._to_renew.add(topic.name)),
        )
        self._subscriptions_by_topic[topic.name] = subscription
        if known is None:
            self._undo.append(lambda: self._unsubscribe(topic.name))

    def _unsubscribe(self, name: str) -> None:
        subscription = self._subscriptions_by_topic.pop(name, None)
        if subscription is not None:
            self.destroy_subscription(subscription)

    def _taker(self, topic: Topic) -> Callable[[bytes, Mapping[str, Any]], None]:
        """What takes a message and rclpy's information on it, whose timestamps are the system's, in ns."""

        def take(raw: bytes, info: Mapping[str, Any]) -> None:
            times, writer = self._world_times, self._writer
            if writer is None:
                return
            if times is None:
                writer.write(topic.name, bytes(raw), info["received_timestamp"], info["source_timestamp"])
                return
            if topic is topics.CLOCK:
                times.tell(convert.to_ns(decode(raw, topic.type).clock))
            elif topic in (topics.EPISODE_START, topics.TICK_PLAN):
                times.tell_first(convert.to_ns(decode(raw, topic.type).stamp))
            times.put(topic.name, bytes(raw))

        return take

    def _look(self) -> None:
        """Fit subscriptions and recorded profiles to what publishers offer; say what went wrong."""
        writer = self._writer
        if writer is None:
            return
        for topic in topics.RECORDED:
            offered = [info.qos_profile for info in self.get_publishers_info_by_topic(topic.name)]
            if offered:
                writer.add_topic(topic.name, topic.type, bag_profiles(offered))
            if topic.name in self._to_renew and offered:
                self._to_renew.discard(topic.name)
                self._subscribe(topic, loosest(offered, asked_for(topic)))
                self.event(sensors.Severity.WARN, "recorder_qos", f"{topic.name}: taken as its publisher offers it")
        if self._failure is not None and not self._failure_said:
            self._failure_said = True
            self.event(sensors.Severity.ERROR, "recording_stopped", self._failure)
        dropped = writer.dropped
        if sum(dropped.values()) > self._dropped_said and not self._failure_said:
            self._dropped_said = sum(dropped.values())
            text = ", ".join(f"{name}: {count}" for name, count in sorted(dropped.items()))
            self.event(
                sensors.Severity.WARN, "recording_dropped", f"the disk does not keep up; dropped {text}", dropped
            )

    def _on_failure(self, reason: str) -> None:
        self._failure = reason  # said by the timer: this runs in the writing thread

    def _end(self) -> None:
        """Take no more; finish the bag now where the disk is quick, else until the process ends."""
        times, self._world_times = self._world_times, None
        if times is not None:
            times.end()
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if writer.end(QUICK_S):
            self._say_recorded(writer.close())
        else:
            self._finishing.append(writer)
            self.get_logger().warning(f"{writer.path}: the disk is slow; the rest of the recording is being written")

    def _say_recorded(self, summary: RecordingSummary) -> None:
        kept, lost = sum(summary.messages.values()), sum(summary.dropped.values())
        if summary.failure is not None and not self._failure_said:
            self._failure_said = True
            self.get_logger().error(summary.failure)
        self.get_logger().info(f"recorded {kept} messages into {summary.path}, dropped {lost}")


def asked_for(topic: Topic) -> QoSProfile:
    """Reliable, and with room for seconds of messages that come while this process does not get the processor."""
    profile = qos.subscriber_qos(topic, must_not_lose=True)
    profile.depth = PICTURE_DEPTH if topic.kind is Kind.PICTURE else DEPTH
    return profile


def free_folder(path: Path) -> Path:
    """`path`, or where that holds something already, the first of path-2, path-3, … that does not."""
    candidate, number = path, 1
    while candidate.exists() and (not candidate.is_dir() or any(candidate.iterdir())):
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def loosest(offered: list[QoSProfile], asked: QoSProfile) -> QoSProfile:
    """What is asked, given up only where some publisher does not offer it."""
    if any(profile.reliability != ReliabilityPolicy.RELIABLE for profile in offered):
        asked.reliability = ReliabilityPolicy.BEST_EFFORT
    if any(profile.durability != DurabilityPolicy.TRANSIENT_LOCAL for profile in offered):
        asked.durability = DurabilityPolicy.VOLATILE
    return asked


def main() -> None:
    """Entry point."""
    sys.exit(run([RecorderNode]))
