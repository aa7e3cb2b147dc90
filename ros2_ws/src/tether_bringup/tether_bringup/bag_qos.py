"""Quality of service between rclpy and bags."""

from __future__ import annotations

from collections.abc import Iterable

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from tether_ros import qos

from tether import topics
from tether.bags import TopicInfo
from tether.bags.qos import FOREVER
from tether.topics import Kind

FOREVER_NS = FOREVER.sec * 10**9 + FOREVER.nsec
UNKNOWN_DEPTH = 1000
LARGE_DEPTH = 10
LARGE_TYPES = frozenset({"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/PointCloud2"})
_OURS = {topic.name: topic for topic in vars(topics).values() if isinstance(topic, topics.Topic)}


def bag_profiles(profiles: Iterable[QoSProfile]) -> tuple[Qos, ...]:
    """As a bag records them; equal ones once."""
    return tuple(dict.fromkeys(_bag_profile(profile) for profile in profiles))


def _bag_profile(profile: QoSProfile) -> Qos:
    return Qos(
        QosHistory(int(profile.history)),
        int(profile.depth),
        QosReliability(int(profile.reliability)),
        QosDurability(int(profile.durability)),
        _time(profile.deadline),
        _time(profile.lifespan),
        QosLiveliness(int(profile.liveliness)),
        _time(profile.liveliness_lease_duration),
        bool(profile.avoid_ros_namespace_conventions),
    )


def _time(duration: Duration) -> QosTime:
    """Zero is how rclpy writes an unset duration; rosbag2 writes it as forever."""
    nanoseconds = duration.nanoseconds
    if nanoseconds <= 0 or nanoseconds >= FOREVER_NS:
        return FOREVER
    return QosTime(nanoseconds // 10**9, nanoseconds % 10**9)


def replay_profile(topic: TopicInfo, played_as: str) -> QoSProfile:
    """What the player offers for a recorded topic: always reliable, which every subscriber fits and loses nothing;
    transient local where a recorded publisher was, or ROS 1 latched. Topics of the graph as the graph itself does.
    """
    own = _OURS.get(played_as)
    if own is not None and own.type == topic.type:
        profile = qos.publisher_qos(own)
        profile.depth = profile.depth if own.kind in (Kind.PICTURE, Kind.LATCHED) else UNKNOWN_DEPTH
        return profile
    latched = topic.latched or any(profile.durability is QosDurability.TRANSIENT_LOCAL for profile in topic.qos)
    depth = LARGE_DEPTH if topic.type in LARGE_TYPES else UNKNOWN_DEPTH
    recorded = [p.depth for p in topic.qos if p.history is QosHistory.KEEP_LAST and p.depth > 0]
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=max([depth, *recorded]) if not latched else max([1, *recorded]),
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )
