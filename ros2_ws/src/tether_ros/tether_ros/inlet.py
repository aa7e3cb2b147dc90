"""What a node hears of one topic from other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from tether.topics import Topic
from tether_ros import qos

AT_ONCE = 32
"""Most messages taken from one topic before others have their turn again."""
_ALL = 128
"""More than a queue holds: whoever looks gets the newest, and a flood ends somewhere."""


class Inlet:
    """A subscription that hands over serialised messages: as the executor finds them, or all there is when asked."""

    def __init__(
        self,
        node: Node,
        topic: Topic,
        on_bytes: Callable[[bytes], None],
        profile: QoSProfile,
        on_incompatible: Callable[[str], None],
    ) -> None:
        """on_incompatible: told in words of a publisher that offers less than `profile` asks for."""
        self.topic = topic
        self._node = node
        self._on_bytes = on_bytes

        def report(info: Any) -> None:
            on_incompatible(f"{topic.name}: a publisher offers less than this node asks for in {info.last_policy_kind}")

        self._subscription: Subscription[Any] = node.create_subscription(
            qos.message_class(topic),
            topic.name,
            on_bytes,
            profile,
            raw=True,
            # Every event is one more thing that each wait of rclpy's executor walks over.
            event_callbacks=SubscriptionEventCallbacks(incompatible_qos=report, use_default_callbacks=False),
        )

    def feeders(self) -> int:
        """Number of publishers that are matched."""
        return int(self._subscription.get_publisher_count())

    def take_arrived(self) -> None:
        """Hand over what has arrived by now and waits for the executor.

        For whoever judges how long nothing has come: before that it has to have looked.
        """
        for _ in range(_ALL):
            try:
                with self._subscription.handle:
                    taken = self._subscription.handle.take_message(self._subscription.msg_type, True)
            except InvalidHandle:
                return
            if taken is None:
                return
            self._on_bytes(taken[0])

    def destroy(self) -> None:
        """Hear no more."""
        self._node.destroy_subscription(self._subscription)
