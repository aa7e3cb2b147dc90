"""Runs ROS 2 launch files where ROS 2's own launch is not installed.

    plan = read("launch/sim.launch.xml", {"task": "pick"})
    with Runner(plan, log_dir=Path("runs/1")) as run:
        outcome = run.wait(timeout_s=60.0)

`read` is strict: a file it takes means the same to `ros2 launch`.
"""

from tether.launch.ament import find_executable, find_package_share, find_share_file
from tether.launch.errors import Fault, LaunchFileError, PackageNotFoundError
from tether.launch.model import LaunchPlan, ProcessPlan
from tether.launch.reader import parse_arguments, read
from tether.launch.runner import EndReason, Failure, Outcome, Runner, RunningProcess
from tether.launch.stopping import Stage, StopTimes

__all__ = [
    "EndReason",
    "Failure",
    "Fault",
    "LaunchFileError",
    "LaunchPlan",
    "Outcome",
    "PackageNotFoundError",
    "ProcessPlan",
    "Runner",
    "RunningProcess",
    "Stage",
    "StopTimes",
    "find_executable",
    "find_package_share",
    "find_share_file",
    "parse_arguments",
    "read",
]
