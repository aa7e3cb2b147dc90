"""The replay player begins once its listeners are matched, those of /clock among them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import rclpy
from rclpy.signals import SignalHandlerOptions
from tether_bringup import ros_sink
from tether_bringup.ros_sink import Outgoing, RosSink
from tether_ros import qos

from tether import codec, topics
from tether.bags.definitions import ResolvedType
from tether.bags.model import Encoding
from tether.bags.transcode import Transcoder

pytestmark = [pytest.mark.ros, pytest.mark.timeout(120)]


class MatchedLate:
    """A publisher whose listener is known at once and matched after a while, as discovery has it on a busy machine."""

    def __init__(self, publisher: Any, after_s: float) -> None:
        self._publisher, self._matched_s = publisher, time.monotonic() + after_s

    def get_subscription_count(self) -> int:
        return int(self._publisher.get_subscription_count()) if time.monotonic() >= self._matched_s else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._publisher, name)


@pytest.mark.parametrize("late", ["clock", "bag"])
def test_player_waits_for_the_listeners_of_the_bag_and_of_clock(
    domain: int, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    monkeypatch.setattr(ros_sink, "SETTLE_S", 0.1)
    rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("player")
    listener = rclpy.create_node("listener", parameter_overrides=[rclpy.Parameter("use_sim_time", value=True)])
    try:
        imu, clock = (
            node.create_publisher(qos.message_class(topic), topic.name, qos.publisher_qos(topic))
            for topic in (topics.IMU, topics.CLOCK)
        )
        heard = listener.create_subscription(
            qos.message_class(topics.IMU), topics.IMU.name, lambda msg: None, qos.subscriber_qos(topics.IMU, True)
        )
        deadline = time.monotonic() + 30.0
        while not (imu.get_subscription_count() and clock.get_subscription_count()):
            assert time.monotonic() < deadline, "nobody is matched"
            time.sleep(0.02)
        began_s, after_s = time.monotonic(), 1.0
        if late == "clock":
            clock = MatchedLate(clock, after_s)
        else:
            imu = MatchedLate(imu, after_s)
        store = codec.typestore()
        transcoder = Transcoder(ResolvedType(topics.IMU.type, store, Encoding.CDR, True), store)
        outgoing = {topics.IMU.name: Outgoing(imu, transcoder)}
        sink = RosSink(outgoing, clock, True, lambda before, after: None)
        assert sink.await_listeners(node, threading.Event().is_set)
        assert time.monotonic() - began_s >= after_s
        assert heard.topic_name == topics.IMU.name
    finally:
        for made in (node, listener):
            made.destroy_node()
        rclpy.shutdown()
