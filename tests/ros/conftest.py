"""Test folders are no packages; graph_tools is shared by the modules of this one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2's rclpy (make setup)")
pytest.importorskip("tether_msgs", reason="needs the built interfaces (make setup)")

sys.path.insert(0, str(Path(__file__).parent))
