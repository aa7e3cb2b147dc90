"""The venv's start-up hook: nothing to source, and no mixing with another ROS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from setup_steps import env_hook

GUARD = env_hook.GUARD_OF_WHEELS


def test_wheels_search_this_venv_alone(tmp_path: Path) -> None:
    venv, other = tmp_path / "venv", tmp_path / "humble"
    (other / "lib").mkdir(parents=True)
    (other / "lib/librcl.so").touch()
    (other / "python/rclpy").mkdir(parents=True)
    mine = tmp_path / "mine"
    env = env_hook.for_wheels(
        {
            "AMENT_PREFIX_PATH": str(other),
            "LD_LIBRARY_PATH": f"{other}/lib:/usr/local/cuda/lib64",
            "PYTHONPATH": f"{other}/python:{mine}",
        },
        str(venv),
    )
    assert env["AMENT_PREFIX_PATH"] == str(venv)
    assert env["LD_LIBRARY_PATH"] == "/usr/local/cuda/lib64"
    assert env["PYTHONPATH"] == str(mine)


def test_guard_inherited_from_another_venv_is_dropped(tmp_path: Path) -> None:
    inherited = {GUARD: "1", "LD_LIBRARY_PATH": "/other/venv/lib"}
    assert GUARD not in env_hook.for_wheels(inherited, str(tmp_path))


def test_guard_of_this_venv_is_kept_so_that_python_starts_once(tmp_path: Path) -> None:
    inherited = {GUARD: "1", "LD_LIBRARY_PATH": f"{tmp_path}/lib"}
    assert env_hook.for_wheels(inherited, str(tmp_path))[GUARD] == "1"


CAPTURED = {
    "AMENT_PREFIX_PATH": ["/opt/ros/jazzy"],
    "LD_LIBRARY_PATH": ["/opt/ros/jazzy/lib"],
    "PYTHONPATH": ["/opt/ros/jazzy/lib/python3.12/site-packages"],
    "ROS_DISTRO": "jazzy",
}


def test_installed_ros_comes_after_this_venv_and_before_the_rest() -> None:
    env = env_hook.for_system({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, "/t/.venv", CAPTURED)
    assert env["AMENT_PREFIX_PATH"] == "/t/.venv:/opt/ros/jazzy"
    assert env["LD_LIBRARY_PATH"] == "/t/.venv/lib:/opt/ros/jazzy/lib:/usr/local/cuda/lib64"
    assert env["ROS_DISTRO"] == "jazzy"


def test_installed_ros_environment_is_a_fixed_point_so_that_python_restarts_once() -> None:
    once = env_hook.for_system({}, "/t/.venv", CAPTURED)
    assert env_hook.for_system(once, "/t/.venv", CAPTURED) == once


@pytest.mark.ros
def test_venv_python_finds_ros_from_an_empty_environment() -> None:
    ask = (
        "import rclpy\n"
        "from ament_index_python import get_package_prefix\n"
        "from tether_msgs.msg import Decision\n"
        "Decision()\n"
        "get_package_prefix('tether_msgs')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], env={"PATH": os.defpath}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
