"""What a node says: messages of one topic, published as serialised bytes and handed over within the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.duration import Duration
from rclpy.publisher import Publisher

from tether.codec import encode
from tether.topics import Topic
from tether_ros.hub import Hub


class Outlet:
    """Publishes messages of one topic as serialised bytes."""

    def __init__(self, topic: Topic, publisher: Publisher, hub: Hub, after: Callable[[], None] | None = None) -> None:
        """after: called each time something was sent."""
        self.topic = topic
        self._publisher = publisher
        self._hub = hub
        self._after = after

    def send(self, msg: Any) -> None:
        """Serialise and publish one message made by `tether.codec`."""
        raw = encode(msg)
        self._hub.send(self.topic, raw)
        self._publisher.publish(raw)
        if self._after is not None:
            self._after()

    def flush(self, deadline_s: float = 2.0) -> bool:
        """Wait until every reliable subscriber has what was sent; False where the deadline came first."""
        return bool(self._publisher.wait_for_all_acked(Duration(seconds=deadline_s)))

    def matched(self) -> int:
        """Number of subscriptions of other processes that receive what is sent."""
        return self._publisher.get_subscription_count()

    def is_taken_here(self) -> bool:
        """Whether a node of this process is handed what is sent."""
        return self._hub.takers(self.topic) > 0
