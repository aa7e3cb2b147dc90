"""One life of the real graph: what the campaign does in it ends as the table says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tether.cli import main

pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.realtime,
    pytest.mark.timeout(400),
    pytest.mark.skipif(importlib.util.find_spec("rclpy") is None, reason="needs ROS 2's rclpy (make setup)"),
    pytest.mark.skipif(importlib.util.find_spec("tether_msgs") is None, reason="needs the built interfaces"),
]

TABLE = """
faults:
  executor_frozen:
    {group: command_loss, action: freeze, target: primitive_executor, ends: [hold], recovery: automatic,
     stop_max_ms: 5000}
  policy_frozen:
    {group: command_loss, action: freeze, target: policy, ends: [hold], recovery: automatic, stop_max_ms: 5000}
  joints_absent:
    {group: sensor_loss, action: wire, target: /joint_states, effect: drop, ends: [hold], recovery: automatic,
     stop_max_ms: 5000}
  gate_killed: {group: gate_loss, action: kill, target: safety_supervisor, ends: [watchdog], recovery: restart}
not_run: {}
"""


def test_lost_commands_sensors_and_gate_stop_the_robot_in_the_live_graph(domain: int, tmp_path: Path) -> None:
    table, out = tmp_path / "faults.yaml", tmp_path / "out.json"
    table.write_text(TABLE)
    assert main(["faults", "--table", str(table), "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["injections"] == 4
    assert result["unsafe_commands"] == 0
    ends = {name: set(row["ends"]) for name, row in result["per_fault"].items()}
    held = {"hold"}
    assert ends == {"executor_frozen": held, "policy_frozen": held, "joints_absent": held, "gate_killed": {"watchdog"}}
    assert not (tmp_path / "out.json.journal").exists()
