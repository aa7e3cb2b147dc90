"""Where the replay player's messages go: publishers of serialised messages, and /clock."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from tether_ros.matching import is_matched

from tether import codec, topics
from tether.bags import Bag, BagMessage, CorruptMessageError, TopicInfo
from tether.bags.transcode import Transcoder
from tether.codec import convert, encode, message
from tether_bringup.bag_qos import replay_profile

MATCH_S, SETTLE_S = 8.0, 1.5
"""Longest wait for somebody to listen, and how long the number of listeners must stay the same; then it begins."""
ACKNOWLEDGE_S = 2.0
POLL_S = 0.02
MakePublisher = Callable[[Any, str, Any], Publisher]
OF_THE_GRAPH = frozenset(
    topic.name
    for topic in (
        topics.JOINT_COMMAND,
        topics.CMD_VEL,
        topics.IMU_BATCH,
        topics.IMAGE_FEATURE,
        topics.FUSED_STATE,
        topics.POLICY_OUTPUT,
        topics.DECISION,
        topics.PROPOSED,
        topics.VERDICT,
        topics.EVENTS,
        topics.MODALITY_STATUS,
        topics.LIFECYCLE_STATUS,
        topics.DIAGNOSTICS,
    )
)
"""Published by the graph's own nodes; a bag's copies would contradict them, and commands would reach motors."""


class Outgoing:
    """The publisher of one recorded topic with what turns its bytes into today's CDR."""

    def __init__(self, publisher: Publisher, transcode: Transcoder) -> None:
        self.publisher = publisher
        self.transcode = transcode
        self.since_acknowledged = 0

    def is_matched(self, node: Node) -> bool:
        """Whether all that can hear it and the graph knows are matched."""
        return is_matched(node, self.publisher, self.transcode.type)


class RosSink:
    """Publishes what is played. lost: topic → messages that could not be turned into today's type.

    paced: False makes publishing wait for acknowledgement, so that an unpaced player loses nothing.
    on_jump: called with (from_ns, to_ns) when the bag begins again; /clock shows it next.
    """

    def __init__(
        self, outgoing: Mapping[str, Outgoing], clock: Publisher, paced: bool, on_jump: Callable[[int, int], None]
    ) -> None:
        self._outgoing = outgoing
        self._clock = clock
        self._paced = paced
        self.jumped_back = on_jump
        self.lost: dict[str, int] = {}

    def clock(self, time_ns: int) -> None:
        """Publish /clock."""
        self._clock.publish(encode(message(topics.CLOCK.type)(convert.to_time(time_ns))))

    def message(self, topic: str, message: BagMessage) -> None:
        """Publish one message; `topic` stands in its publisher already."""
        out = self._outgoing[message.topic]
        try:
            if message.type != out.transcode.recorded:
                raise CorruptMessageError(f"{message.topic} has messages of {message.type} too; one type can be played")
            out.publisher.publish(out.transcode(message.raw))
        except CorruptMessageError:
            self.lost[message.topic] = self.lost.get(message.topic, 0) + 1
            return
        out.since_acknowledged += 1
        if not self._paced and out.since_acknowledged * 2 >= out.publisher.qos_profile.depth:
            out.publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_S))
            out.since_acknowledged = 0

    def await_listeners(self, node: Node, cancelled: Callable[[], bool]) -> bool:
        """Wait until somebody listens and the number of listeners has settled, for discovery takes its time.

        Those of /clock are waited for, too: to a node that has not heard it every stamp lies in the future. node: knows
        the graph. Returns whether anybody listens to the bag.
        """
        outgoing = self._outgoing.values()
        deadline = time.monotonic() + MATCH_S
        heard, since = -1, time.monotonic()
        while time.monotonic() < deadline and not cancelled():
            count = sum(out.publisher.get_subscription_count() for out in outgoing)
            matched = is_matched(node, self._clock, topics.CLOCK.type) and all(out.is_matched(node) for out in outgoing)
            if count != heard:
                heard, since = count, time.monotonic()
            elif heard > 0 and matched and time.monotonic() - since >= SETTLE_S:
                break
            time.sleep(POLL_S)
        return heard > 0

    def flush(self) -> None:
        """Wait until what was published has been acknowledged, each publisher at most ACKNOWLEDGE_S."""
        for out in self._outgoing.values():
            out.publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_S))


def make_outgoing(
    bag: Bag, topic: TopicInfo, played_as: str, make_publisher: MakePublisher
) -> tuple[Outgoing | None, str]:
    """A publisher for one recorded topic, or None and the reason why it cannot be played."""
    resolved = bag.resolved(topic.name)
    if resolved is None:
        return None, f"{topic.name}: type {topic.type} is unknown"
    transcode = Transcoder(resolved, codec.typestore())
    package, _, name = transcode.type.split("/")
    try:
        kind = getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError):
        return None, f"{topic.name}: no type support for {transcode.type} is installed"
    return Outgoing(make_publisher(kind, played_as, replay_profile(topic, played_as)), transcode), ""
