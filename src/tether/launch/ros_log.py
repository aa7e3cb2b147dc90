"""Where ROS writes the log files of its nodes, where its own rule gives no folder.

A node does not start without one. Cron, systemd and containers set no HOME, or one in which nobody may write.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "ROS_LOG_DIR"


def has_log_dir(env: Mapping[str, str]) -> bool:
    """Whether a node with this environment has a folder for its log.

    The rule is rcl's: ROS_LOG_DIR, else `log` in ROS_HOME, else `.ros/log` in HOME; an empty variable is as good as
    none. The first two are somebody's wish and stand even where nothing can be written there.
    """
    if env.get(VARIABLE) or env.get("ROS_HOME"):
        return True
    home = env.get("HOME")
    if not home:
        return False
    place = Path(home, ".ros", "log")
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def log_environment(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What to set beside `env` so that nodes log somewhere: `folder`, or nothing where they have a place."""
    return {} if has_log_dir(env) else {VARIABLE: os.path.abspath(folder)}


def ensure_log_dir() -> None:
    """Give this process a folder for the log of its own nodes, before `rclpy.init`; removed at its end."""
    if has_log_dir(os.environ):
        return
    folder = tempfile.mkdtemp(prefix="tether_ros_log_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = folder
