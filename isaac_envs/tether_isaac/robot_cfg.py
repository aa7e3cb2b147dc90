"""The robot as an Isaac Lab articulation: the authored USD and the servos of the MuJoCo world."""

from __future__ import annotations

from collections.abc import Iterable

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg

from tether.robot.model import RobotModel, read_model
from tether.robot.roles import ARM_JOINTS, GRIPPER_JOINT, WHEEL_JOINTS
from tether.world.model import BASE_JOINTS, SceneSpec
from tether_isaac.drives import Drive, drives
from tether_isaac.files import assets_of, robot_urdf

FOLLOWER = f"{GRIPPER_JOINT}_right"


def robot_cfg(scene: SceneSpec, start: dict[str, float]) -> ArticulationCfg:
    """The robot at `start` (positions by joint, those of the task) under {ENV_REGEX_NS}/Robot."""
    robot = read_model(robot_urdf())
    made = drives(robot, scene)
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(usd_path=str(assets_of(scene).robot)),
        init_state=ArticulationCfg.InitialStateCfg(joint_pos={**start, FOLLOWER: start[GRIPPER_JOINT]}),
        actuators={
            "base": _actuator(made, BASE_JOINTS),
            "wheels": _actuator(made, WHEEL_JOINTS),
            "arm": _actuator(made, ARM_JOINTS),
            "gripper": _actuator(made, (GRIPPER_JOINT, FOLLOWER)),
        },
        soft_joint_pos_limit_factor=1.0,
    )


def _actuator(made: dict[str, Drive], names: Iterable[str]) -> ImplicitActuatorCfg:
    """A group of drives that the solver integrates."""
    group = {name: made[name] for name in names}
    efforts = {name: drive.effort for name, drive in group.items() if drive.effort is not None}
    return ImplicitActuatorCfg(
        joint_names_expr=list(group),
        stiffness={name: drive.stiffness for name, drive in group.items()},
        damping={name: drive.damping for name, drive in group.items()},
        armature={name: drive.armature for name, drive in group.items()},
        friction={name: drive.friction for name, drive in group.items()},
        viscous_friction={name: drive.viscous for name, drive in group.items()},
        joint_effort_limit=efforts or None,
    )


def articulated_names(robot: RobotModel) -> tuple[str, ...]:
    """Every joint of the articulation that moves: the base's, the URDF's commanded ones, the mimicking finger."""
    return (*BASE_JOINTS, *robot.joint_names, FOLLOWER)
