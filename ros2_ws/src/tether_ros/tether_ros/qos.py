"""The graph's topics for rclpy: message classes and quality of service. Names stand in `tether.topics`."""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from tether.topics import Kind, Topic


def message_class(topic: Topic) -> Any:
    """The rclpy message class of a topic; ImportError where the interface package is not built."""
    package, _, name = topic.type.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


_PUBLISHER_DEPTH = {Kind.SENSOR: 100, Kind.PICTURE: 10, Kind.STAGE: 100, Kind.LATCHED: 1}
_SUBSCRIBER_DEPTH = {Kind.SENSOR: 50, Kind.PICTURE: 1, Kind.STAGE: 100, Kind.LATCHED: 1}


def publisher_qos(topic: Topic) -> QoSProfile:
    """What our publishers offer: always reliable, so that a reliable subscriber (recorder, lockstep) fits too."""
    latched = topic.kind is Kind.LATCHED
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=_PUBLISHER_DEPTH[topic.kind],
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def subscriber_qos(topic: Topic, must_not_lose: bool) -> QoSProfile:
    """What our subscribers ask for. must_not_lose: recorder and lockstep; otherwise sensors are best effort."""
    if must_not_lose:
        profile = publisher_qos(topic)
        profile.depth = max(profile.depth, 100)
        return profile
    sensor = topic.kind in (Kind.SENSOR, Kind.PICTURE)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=_SUBSCRIBER_DEPTH[topic.kind],
        reliability=ReliabilityPolicy.BEST_EFFORT if sensor else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if topic.kind is Kind.LATCHED else DurabilityPolicy.VOLATILE,
    )
