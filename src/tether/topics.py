"""Every topic of the graph with its type and kind. No other module holds such a literal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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


CLOCK = Topic("/clock", "rosgraph_msgs/msg/Clock", Kind.SENSOR)
IMAGE = Topic("/camera/image_raw", "sensor_msgs/msg/Image", Kind.PICTURE)
COMPRESSED_IMAGE = Topic("/camera/image_raw/compressed", "sensor_msgs/msg/CompressedImage", Kind.PICTURE)
CAMERA_INFO = Topic("/camera/camera_info", "sensor_msgs/msg/CameraInfo", Kind.SENSOR)
IMU = Topic("/imu/data_raw", "sensor_msgs/msg/Imu", Kind.SENSOR)
JOINT_STATES = Topic("/joint_states", "sensor_msgs/msg/JointState", Kind.SENSOR)
JOINT_COMMAND = Topic("/joint_command", "sensor_msgs/msg/JointState", Kind.STAGE)
CMD_VEL = Topic("/cmd_vel", "geometry_msgs/msg/TwistStamped", Kind.STAGE)
BASE_TWIST = Topic("/cmd_vel_unstamped", "geometry_msgs/msg/Twist", Kind.STAGE)
"""For Isaac Sim's bridge, which takes no stamps."""
ALL_JOINT_STATES = Topic("/isaac/joint_states", "sensor_msgs/msg/JointState", Kind.SENSOR)
"""From Isaac Sim's bridge: every joint that moves, wheels and what carries the base among them."""

EPISODE_START = Topic("/world/episode_start", "tether_msgs/msg/EpisodeStart", Kind.LATCHED)
EPISODE_END = Topic("/world/episode_end", "tether_msgs/msg/EpisodeEnd", Kind.STAGE)
TICK_PLAN = Topic("/world/tick_plan", "tether_msgs/msg/TickPlan", Kind.STAGE)
TRUTH = Topic("/world/truth", "tether_msgs/msg/WorldTruth", Kind.STAGE)
MEASURES = Topic("/world/measures", "tether_msgs/msg/WorldTruth", Kind.STAGE)
"""The world's state for the reward server, which alone may listen; policies have no part in it."""
EXECUTED = Topic("/command/executed", "tether_msgs/msg/ExecutedCommand", Kind.STAGE)

IMU_BATCH = Topic("/imu/batch", "tether_msgs/msg/ImuBatch", Kind.STAGE)
IMAGE_FEATURE = Topic("/camera/feature", "tether_msgs/msg/ImageFeature", Kind.STAGE)
FUSED_STATE = Topic("/fusion/state", "tether_msgs/msg/FusedState", Kind.STAGE)
POLICY_OUTPUT = Topic("/policy/output", "tether_msgs/msg/PolicyOutput", Kind.STAGE)
SKILL_ORDER = Topic("/agent/order", "tether_msgs/msg/SkillOrder", Kind.STAGE)
"""What the agent has the policy do, one a decision; the agent publishes nothing else that anybody acts on."""
SKILL_REPORT = Topic("/agent/report", "tether_msgs/msg/SkillReport", Kind.STAGE)
DECISION = Topic("/decision", "tether_msgs/msg/Decision", Kind.STAGE)
PROPOSED = Topic("/command/proposed", "tether_msgs/msg/ProposedCommand", Kind.STAGE)
VERDICT = Topic("/safety/verdict", "tether_msgs/msg/SafetyVerdict", Kind.STAGE)
REWARD = Topic("/reward", "tether_msgs/msg/Reward", Kind.STAGE)

HEARTBEAT = Topic("/heartbeat", "tether_msgs/msg/Heartbeat", Kind.SENSOR)
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
    SKILL_ORDER,
    SKILL_REPORT,
    POLICY_OUTPUT,
    DECISION,
    PROPOSED,
    VERDICT,
    REWARD,
    EVENTS,
    MODALITY_STATUS,
    DIAGNOSTICS,
)
"""What a run's bag holds."""
