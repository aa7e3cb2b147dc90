"""Every topic of the graph with its type and quality of service. No other module holds such a literal."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


class Kind(Enum):
    """How a topic behaves."""

    SENSOR = "sensor"
    """Published reliably for those who must not lose any (recorder, lockstep); taken best effort in real time."""
    PICTURE = "picture"
    """As SENSOR, but large: short queues, the newest wins."""
    STAGE = "stage"
    """From one stage to the next: reliable."""
    LATCHED = "latched"
    """State that a late joiner must learn: reliable and transient local."""


@dataclass(frozen=True)
class Topic:
    """A topic's name, message type (`package/msg/Name`) and kind."""

    name: str
    type: str
    kind: Kind

    def message_class(self) -> Any:
        """The rclpy message class; ImportError where the interface package is not built."""
        package, _, name = self.type.split("/")
        return getattr(importlib.import_module(f"{package}.msg"), name)


CLOCK = Topic("/clock", "rosgraph_msgs/msg/Clock", Kind.SENSOR)
IMAGE = Topic("/camera/image_raw", "sensor_msgs/msg/Image", Kind.PICTURE)
COMPRESSED_IMAGE = Topic("/camera/image_raw/compressed", "sensor_msgs/msg/CompressedImage", Kind.PICTURE)
CAMERA_INFO = Topic("/camera/camera_info", "sensor_msgs/msg/CameraInfo", Kind.SENSOR)
IMU = Topic("/imu/data_raw", "sensor_msgs/msg/Imu", Kind.SENSOR)
JOINT_STATES = Topic("/joint_states", "sensor_msgs/msg/JointState", Kind.SENSOR)
JOINT_COMMAND = Topic("/joint_command", "sensor_msgs/msg/JointState", Kind.STAGE)
CMD_VEL = Topic("/cmd_vel", "geometry_msgs/msg/TwistStamped", Kind.STAGE)

EPISODE_START = Topic("/world/episode_start", "tether_msgs/msg/EpisodeStart", Kind.LATCHED)
EPISODE_END = Topic("/world/episode_end", "tether_msgs/msg/EpisodeEnd", Kind.STAGE)
TICK_PLAN = Topic("/world/tick_plan", "tether_msgs/msg/TickPlan", Kind.STAGE)
TRUTH = Topic("/world/truth", "tether_msgs/msg/WorldTruth", Kind.STAGE)
EXECUTED = Topic("/command/executed", "tether_msgs/msg/ExecutedCommand", Kind.STAGE)

IMU_BATCH = Topic("/imu/batch", "tether_msgs/msg/ImuBatch", Kind.STAGE)
IMAGE_FEATURE = Topic("/camera/feature", "tether_msgs/msg/ImageFeature", Kind.STAGE)
FUSED_STATE = Topic("/fusion/state", "tether_msgs/msg/FusedState", Kind.STAGE)
POLICY_OUTPUT = Topic("/policy/output", "tether_msgs/msg/PolicyOutput", Kind.STAGE)
DECISION = Topic("/decision", "tether_msgs/msg/Decision", Kind.STAGE)
PROPOSED = Topic("/command/proposed", "tether_msgs/msg/ProposedCommand", Kind.STAGE)
VERDICT = Topic("/safety/verdict", "tether_msgs/msg/SafetyVerdict", Kind.STAGE)

EVENTS = Topic("/events", "tether_msgs/msg/Event", Kind.STAGE)
MODALITY_STATUS = Topic("/modality_status", "tether_msgs/msg/ModalityStatus", Kind.STAGE)
LIFECYCLE_STATUS = Topic("/lifecycle/status", "diagnostic_msgs/msg/DiagnosticArray", Kind.LATCHED)
DIAGNOSTICS = Topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", Kind.STAGE)

RECORDED = (
    CLOCK,
    IMAGE,
    COMPRESSED_IMAGE,
    CAMERA_INFO,
    IMU,
    JOINT_STATES,
    JOINT_COMMAND,
    CMD_VEL,
    EPISODE_START,
    EPISODE_END,
    TICK_PLAN,
    TRUTH,
    EXECUTED,
    IMU_BATCH,
    IMAGE_FEATURE,
    FUSED_STATE,
    POLICY_OUTPUT,
    DECISION,
    PROPOSED,
    VERDICT,
    EVENTS,
    MODALITY_STATUS,
    DIAGNOSTICS,
)
"""What a run's bag holds."""

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
