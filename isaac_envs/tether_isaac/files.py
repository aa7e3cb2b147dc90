"""Where the authored USD files lie: a folder in the user's cache, named by the hash of all they are made of."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from tether.assembly import ROBOT_FILE
from tether.resources import resource_path
from tether.robot.description import expand
from tether.world.model import SceneSpec
from tether.world.task import Task
from tether_isaac.usd import Assets, author_assets

CACHE_VARIABLE = "TETHER_ISAAC_ASSETS"
"""Environment variable that names another folder for authored assets."""


@cache
def robot_urdf() -> str:
    """The expanded text of the robot's description."""
    return expand(resource_path("urdf", ROBOT_FILE))


def scene_of(task: Task) -> SceneSpec:
    """What stands in the world of a task, and how contacts and drives behave there."""
    return SceneSpec(cube_side_m=task.cube.side_m, cube_mass_kg=task.cube.mass_kg)


@cache
def assets_of(scene: SceneSpec) -> Assets:
    """Author the robot, the cube and the ground of a scene, each process anew: it takes a moment and is never stale."""
    code = (Path(__file__).parent / "usd.py").read_bytes()
    digest = hashlib.sha256(code + robot_urdf().encode() + repr(scene).encode()).hexdigest()[:16]
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = os.environ.get(CACHE_VARIABLE) or f"{cache_home}/tether/isaac"
    return author_assets(Path(folder) / digest, robot_urdf(), scene)
