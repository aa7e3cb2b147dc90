"""Test folders are no packages; fault_tape is shared by the modules of this one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tether.codec import encode, message, sensors
from tether.robot.roles import COMMAND_JOINTS

sys.path.insert(0, str(Path(__file__).parent))

from fault_tape import REST, Tape


@pytest.fixture
def tape() -> Tape:
    return Tape()


@pytest.fixture
def joint_state() -> bytes:
    """A /joint_states message as bytes, stamped 5 s."""
    kind = message("sensor_msgs/msg/JointState")
    n = len(COMMAND_JOINTS)
    msg = kind(sensors.header_message(5_000_000_000, ""), list(COMMAND_JOINTS), REST, np.zeros(n), np.zeros(0))
    return encode(msg)
