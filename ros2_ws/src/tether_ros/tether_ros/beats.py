"""The heartbeat of a process: one message for all its nodes, sent from within their own turns."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from tether import topics
from tether.codec import encode
from tether.codec.convert.guarding import heartbeat_message
from tether.safety.heartbeat import HeartbeatRules, Pulse
from tether_ros import qos


class Beats:
    """Counts the turns of the process's nodes and publishes them. Everything happens on the executor's thread.

    So nothing beats while a callback is stuck, and a loop that no longer turns is seen by its counter.
    """

    def __init__(self, carrier: Node, process: str, rules: HeartbeatRules) -> None:
        """carrier: the node that publishes; its lifecycle plays no part."""
        self._process = process
        self._pulse = Pulse(rules)
        self._publisher = carrier.create_publisher(
            qos.message_class(topics.HEARTBEAT), topics.HEARTBEAT.name, qos.publisher_qos(topics.HEARTBEAT)
        )
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = carrier.create_timer(rules.idle_beat_ms * 1e-3, self.send, clock=steady)

    def turn(self, loop: str) -> None:
        """A loop has turned: beat where that is due."""
        if self._pulse.turn(loop, time.monotonic_ns()):
            self.send()

    def send(self) -> None:
        """Beat now."""
        loops, counts = self._pulse.take()
        message = heartbeat_message(self._process, os.getpid(), loops, counts, time.monotonic_ns())
        self._publisher.publish(encode(message))


def process_name(nodes: Sequence[Node], program: str) -> str:
    """What a process is called: as its only node, or as its program where it has several."""
    return str(nodes[0].get_name()) if len(nodes) == 1 else program
