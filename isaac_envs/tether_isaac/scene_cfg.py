"""The scene: ground, light, robot and cube, all from files of our own."""

from __future__ import annotations

from dataclasses import MISSING

import isaaclab.sim as sim_utils
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass

from tether.world.task import Task
from tether_isaac.files import assets_of, scene_of
from tether_isaac.robot_cfg import robot_cfg


@configclass
class TetherSceneCfg(InteractiveSceneCfg):
    """Assets of one environment; the ground is one for all."""

    ground: AssetBaseCfg = MISSING
    robot: ArticulationCfg = MISSING
    cube: RigidObjectCfg = MISSING
    light: AssetBaseCfg = AssetBaseCfg(
        prim_path="/World/Light", spawn=sim_utils.DistantLightCfg(intensity=2000.0, color=(1.0, 1.0, 1.0))
    )


def scene_cfg(task: Task, num_envs: int, spacing_m: float) -> TetherSceneCfg:
    """`num_envs` scenes of a task, `spacing_m` apart."""
    scene = scene_of(task)
    assets = assets_of(scene)
    return TetherSceneCfg(
        num_envs=num_envs,
        env_spacing=spacing_m,
        replicate_physics=True,
        ground=AssetBaseCfg(prim_path="/World/Ground", spawn=sim_utils.UsdFileCfg(usd_path=str(assets.ground))),
        robot=robot_cfg(scene, task.start),
        cube=RigidObjectCfg(
            prim_path="{ENV_REGEX_NS}/Cube",
            spawn=sim_utils.UsdFileCfg(usd_path=str(assets.cube)),
            init_state=RigidObjectCfg.InitialStateCfg(pos=(0.25, 0.0, scene.cube_side_m / 2)),
        ),
    )
