"""What a node hears of one topic from other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        on_missed: Callable[[int], None] | None = None,
    ) -> None:
        """on_incompatible: told in words of a publisher that offers less than `profile` asks for.

        on_missed: told how many messages of the one publisher never came to be taken: a newer one stood in their place,
        or the transport lost them.
        """
        self.topic = topic
        self._node = node
        self._on_bytes = on_bytes
        self._on_missed = on_missed
        self._newest: int | None = None

        def report(info: Any) -> None:
            on_incompatible(f"{topic.name}: a publisher offers less than this node asks for in {info.last_policy_kind}")

        self._subscription: Subscription[Any] = node.create_subscription(
            qos.message_class(topic),
            topic.name,
            on_bytes if on_missed is None else self._count_and_take,
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
            if self._on_missed is None:
                self._on_bytes(taken[0])
            else:
                self._count_and_take(*taken)

    def _count_and_take(self, raw: bytes, info: Mapping[str, Any]) -> None:
        """info: rclpy's, whose publication_sequence_number each publisher counts from 1 by itself."""
        number, before = info["publication_sequence_number"], self._newest
        self._newest = number if self.feeders() == 1 else None  # whose number it is, nobody can tell
        if self._on_missed is not None and before is not None and self._newest is not None and number > before + 1:
            self._on_missed(number - before - 1)
        self._on_bytes(raw)

    def destroy(self) -> None:
        """Hear no more."""
        self._node.destroy_subscription(self._subscription)
