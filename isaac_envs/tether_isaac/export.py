"""Writes what `isaac_sim/world.py` needs into a folder, so that Isaac Sim's own Python needs nothing of Tether.

.venv-isaac/bin/python -m tether_isaac.export FOLDER --task pick --seed 0
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from tether import topics
from tether.arguments import not_negative
from tether.assembly import make_world, profile, robot, task
from tether.codec.sensors import IMU_FRAME
from tether.contracts import EpisodeSpec
from tether.errors import TetherError
from tether.results import write_json
from tether.robot.roles import COMMAND_JOINTS, GRIPPER_JOINT
from tether.world.model import SUBSTEP_NS
from tether_isaac.drives import drives
from tether_isaac.files import robot_urdf, scene_of
from tether_isaac.robot_cfg import FOLLOWER
from tether_isaac.usd import author_assets

CAMERA_FRAME = "camera_optical_frame"
_GRAVITY_M_S2 = 9.81
_STEPS_OF_MUJOCO = 2
"""Physics steps here are this many of the MuJoCo world's: two between readings of the IMU, four a tick."""


def export(folder: Path, task_name: str, profile_name: str, seed: int) -> None:
    """Author the USD files and scene.json for the start of an episode of `seed`."""
    wanted, scene = task(task_name), scene_of(task(task_name))
    assets = author_assets(folder, robot_urdf(), scene)
    facts = {
        "robot": assets.robot.name,
        "cube": assets.cube.name,
        "ground": assets.ground.name,
        "physics_dt_s": SUBSTEP_NS * 1e-9 * _STEPS_OF_MUJOCO,
        "start": {**wanted.start, FOLLOWER: wanted.start[GRIPPER_JOINT]},
        "commanded": list(COMMAND_JOINTS),
        "gripper": GRIPPER_JOINT,
        "follower": FOLLOWER,
        "drives": {name: dataclasses.asdict(drive) for name, drive in drives(robot(), scene).items()},
        "cube_pose": _cube_pose(task_name, profile_name, seed),
        "camera": {
            "frame": CAMERA_FRAME,
            "width": profile(profile_name).camera.width,
            "height": profile(profile_name).camera.height,
            "fovy_rad": profile(profile_name).camera.fovy_rad,
            "rate_hz": profile(profile_name).camera.rate_hz,
        },
        "imu_frame": IMU_FRAME,
        "base": {
            "kv_over_kp_s": 2.0 / scene.base_frequency_rad_s,
            "sag_m": _GRAVITY_M_S2 / scene.base_frequency_rad_s**2,
        },
        "topics": {
            name: getattr(topics, name).name.lstrip("/")
            for name in ("CLOCK", "IMAGE", "CAMERA_INFO", "IMU", "ALL_JOINT_STATES", "JOINT_COMMAND", "BASE_TWIST")
        },
    }
    write_json(folder / "scene.json", facts)


def _cube_pose(task_name: str, profile_name: str, seed: int) -> dict[str, Any]:
    """Where the seed puts the cube: m, and the quaternion as x, y, z, w."""
    world = make_world(task_name, profile_name, truth_age_ns=0, pictures=False)
    delivery = world.reset(EpisodeSpec(task(task_name).name, profile(profile_name).name, seed))
    at = world.index.cube_qpos
    qpos = world.data.qpos[at : at + 7].tolist()
    world.close()
    if delivery.result is not None:
        raise AssertionError("an episode does not end at its start")
    return {"position": qpos[:3], "quat_xyzw": [*qpos[4:7], qpos[3]]}


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m tether_isaac.export", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", default="pick", help="name or file (default: %(default)s)")
    parser.add_argument("--profile", default="ideal", help="name or file (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0)
    a = parser.parse_args()
    try:
        export(a.folder, a.task, a.profile, a.seed)
    except TetherError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
