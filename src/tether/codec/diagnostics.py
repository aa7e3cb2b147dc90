"""diagnostic_msgs: how well parts of the robot are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tether.codec.convert import to_time
from tether.codec.store import message

SERVO_BUS = "servo bus"
SERVO = "servo "
"""Names of the parts that a driver speaks of: the bus, and each servo by its joint after this."""
SERVO_TEMPERATURE, SERVO_CURRENT, SERVO_VOLTAGE = "temperature_c", "current_a", "voltage_v"
"""Keys of a servo's values."""


class Wellness(IntEnum):
    """Levels of diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


@dataclass(frozen=True)
class Diagnosis:
    """How well one part is. values: what was measured on it, as text."""

    level: Wellness
    name: str
    text: str
    hardware_id: str
    values: Mapping[str, str]


def diagnostics_message(now_ns: int, parts: Sequence[Diagnosis]) -> Any:
    """diagnostic_msgs/DiagnosticArray."""
    status, pair = message("diagnostic_msgs/msg/DiagnosticStatus"), message("diagnostic_msgs/msg/KeyValue")
    levels = {"OK": 0, "WARN": 1, "ERROR": 2, "STALE": 3}
    return message("diagnostic_msgs/msg/DiagnosticArray")(
        message("std_msgs/msg/Header")(to_time(now_ns), ""),
        [
            status(
                int(part.level),
                part.name,
                part.text,
                part.hardware_id,
                [pair(key, value) for key, value in part.values.items()],
                **levels,
            )
            for part in parts
        ],
    )
