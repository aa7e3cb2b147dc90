"""What the critical state of a robot is made of."""

from __future__ import annotations

from enum import Enum

from tether.contracts import Mode


class Item(str, Enum):
    """Leaves of the tree."""

    MODE = "mode"
    """Name of the gate's mode."""
    SKILL = "active_skill"
    HELD = "held_object"
    CALIBRATION = "calibration"
    """SHA-256 of the calibration in use, hexadecimal."""
    MODEL = "model_version"
    """Names, versions and SHA-256 of the models in use."""


INITIAL: dict[str, bytes] = {
    Item.MODE.value: Mode.INIT.name.encode(),
    Item.SKILL.value: b"",
    Item.HELD.value: b"",
    Item.CALIBRATION.value: b"",
    Item.MODEL.value: b"",
}
"""The state of a robot that has never run."""
