"""What the black box holds: sensors, decisions, commands, verdicts and events."""

from __future__ import annotations

from tether import topics
from tether.topics import Kind, Topic

CONTENTS: tuple[Topic, ...] = (
    topics.EPISODE_START,
    topics.EPISODE_END,
    topics.IMAGE,
    topics.COMPRESSED_IMAGE,
    topics.CAMERA_INFO,
    topics.IMU,
    topics.JOINT_STATES,
    topics.FUSED_STATE,
    topics.POLICY_OUTPUT,
    topics.DECISION,
    topics.PROPOSED,
    topics.JOINT_COMMAND,
    topics.CMD_VEL,
    topics.EXECUTED,
    topics.VERDICT,
    topics.EVENTS,
)
"""Stages' inner results (IMU batches, picture features) are left out: they can be computed from these."""

PICTURES = frozenset(topic.name for topic in CONTENTS if topic.kind is Kind.PICTURE)
LATCHED = frozenset(topic.name for topic in CONTENTS if topic.kind is Kind.LATCHED)
TYPES = {topic.name: topic.type for topic in CONTENTS}
