"""The world behind emulated devices, by the names of task and profile."""

from __future__ import annotations

from tether.assembly import ROBOT_FILE, profile, task
from tether.hardware.emulate.robot import prompt
from tether.resources import resource_path
from tether.robot.description import expand
from tether.world.mujoco_world import MujocoWorld


def make_emulated_world(task_name: str, profile_name: str, *, pictures: bool) -> MujocoWorld:
    """The MuJoCo world as an emulated robot needs it: sensors without the delays that the wires bring."""
    urdf = expand(resource_path("urdf", ROBOT_FILE))
    return MujocoWorld(urdf, task(task_name), prompt(profile(profile_name)), pictures=pictures)
