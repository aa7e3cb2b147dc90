"""What the gate's guards hear: heartbeats, and rewards as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.codec.convert.basics import to_ns
from tether.codec.store import message
from tether.safety.breaker import Reward
from tether.safety.heartbeat import Beat


def heartbeat_message(process: str, pid: int, loops: Sequence[str], counts: Sequence[int], steady_ns: int) -> Any:
    """tether_msgs/Heartbeat."""
    return message("tether_msgs/msg/Heartbeat")(steady_ns, process, pid, list(loops), np.array(counts, np.uint64))


def beat_from(msg: Any) -> Beat:
    """From tether_msgs/Heartbeat."""
    return Beat(msg.process, int(msg.pid), tuple(msg.loops), tuple(msg.counts.tolist()))


def claimed_reward_from(msg: Any, skill: str) -> Reward:
    """A tether_msgs/Reward with whatever it claims: the breaker is who judges it."""
    return Reward(skill, int(msg.episode), msg.subgoal, float(msg.value), to_ns(msg.stamp), float(msg.task_return))
