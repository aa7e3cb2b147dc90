"""What the gate's guards hear: heartbeats, rewards as they came, and how the servos are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.codec.convert.basics import to_ns
from tether.codec.diagnostics import SERVO, SERVO_BUS, SERVO_CURRENT, SERVO_TEMPERATURE, SERVO_VOLTAGE, Wellness
from tether.codec.store import message
from tether.safety.breaker import Reward
from tether.safety.heartbeat import Beat
from tether.safety.inputs import ServoSample


def heartbeat_message(process: str, pid: int, loops: Sequence[str], counts: Sequence[int], steady_ns: int) -> Any:
    """tether_msgs/Heartbeat."""
    return message("tether_msgs/msg/Heartbeat")(steady_ns, process, pid, list(loops), np.array(counts, np.uint64))


def beat_from(msg: Any) -> Beat:
    """From tether_msgs/Heartbeat."""
    return Beat(msg.process, int(msg.pid), tuple(msg.loops), tuple(msg.counts.tolist()))


def claimed_reward_from(msg: Any, skill: str) -> Reward:
    """A tether_msgs/Reward with whatever it claims: the breaker is who judges it."""
    return Reward(skill, int(msg.episode), msg.subgoal, float(msg.value), to_ns(msg.stamp), float(msg.task_return))


def servo_sample_from(msg: Any) -> ServoSample | None:
    """From the diagnostic_msgs/DiagnosticArray of a driver; None for one that says nothing of a servo bus.

    What was last heard of a servo that is silent, or of one on a bus that is gone, says nothing of how it is now: it is
    not in the sample. A text that is no number becomes NaN. Both are for the gate to refuse, by name.
    """
    parts = {str(part.name): part for part in msg.status}
    bus = parts.get(SERVO_BUS)
    if bus is None:
        return None
    heard = {
        name.removeprefix(SERVO): {str(pair.key): str(pair.value) for pair in part.values}
        for name, part in parts.items()
        if name.startswith(SERVO) and part is not bus and Wellness.STALE not in (int(part.level), int(bus.level))
    }

    def told(key: str) -> tuple[float, ...]:
        return tuple(_number(values.get(key, "")) for values in heard.values())

    return ServoSample(tuple(heard), told(SERVO_TEMPERATURE), told(SERVO_CURRENT), told(SERVO_VOLTAGE))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
