"""Processes of the graph start where ROS finds no folder for its logs: cron, systemd and containers set no HOME."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REFUSED = """
from tether_ros.process import run

def refuse():
    raise ValueError("this far")

raise SystemExit(run([refuse], []))
"""
PROBE = ["-m", "tether_bringup.fault_probe"]


def environment(folder: Path, domain: int, **changed: str) -> dict[str, str]:
    """This process's, without what names a folder for ROS's logs."""
    left_out = ("HOME", "ROS_HOME", "ROS_LOG_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "ROS_DOMAIN_ID": str(domain), "TMPDIR": str(folder), **changed}


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "/dev/null"}], ids=["none", "empty", "unwritable"])
def test_a_process_of_the_graph_starts_without_a_home(home: dict[str, str], tmp_path: Path, domain: int) -> None:
    env = environment(tmp_path, domain, **home)
    done = subprocess.run([sys.executable, "-c", REFUSED], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "parameters refused: this far" in done.stderr
    assert not list(tmp_path.glob("tether_ros_log_*"))


def test_the_fault_probe_starts_without_a_home(tmp_path: Path, domain: int) -> None:
    done = subprocess.run(
        [sys.executable, *PROBE, str(tmp_path / "recording")],
        env=environment(tmp_path, domain),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
