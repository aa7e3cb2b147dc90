"""What drives each joint: the numbers that `tether.world.model` gives MuJoCo, read out of the model it compiles.

So gains, reflected inertias and efforts are those of the MuJoCo world, whatever becomes of them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import mujoco

from tether.robot.model import RobotModel
from tether.robot.roles import GRIPPER_JOINT
from tether.world.model import BASE_JOINTS, SceneSpec, compile_model
from tether_isaac.files import robot_urdf


@dataclass(frozen=True)
class Drive:
    """A position or velocity drive with what is behind it. SI units; effort None: not limited."""

    stiffness: float
    damping: float
    armature: float
    friction: float
    viscous: float
    effort: float | None


def drives(robot: RobotModel, scene: SceneSpec) -> dict[str, Drive]:
    """The drive of each joint that moves, by name."""
    model = _compiled(scene)
    names = (*BASE_JOINTS, *robot.joint_names, f"{GRIPPER_JOINT}_right")
    return {name: _drive(model, name) for name in names}


def _drive(model: mujoco.MjModel, name: str) -> Drive:
    joint = model.joint(name)
    dof = int(joint.dofadr[0])
    actuators = [i for i in range(model.nu) if model.actuator(i).name == name]
    bias = model.actuator_biasprm[actuators[0]] if actuators else (0.0, 0.0, 0.0)
    limited = bool(model.jnt_actfrclimited[joint.id])
    return Drive(
        stiffness=-float(bias[1]),
        damping=-float(bias[2]),
        armature=float(model.dof_armature[dof]),
        friction=float(model.dof_frictionloss[dof]),
        viscous=float(model.dof_damping[dof].flat[0]),
        effort=float(model.jnt_actfrcrange[joint.id, 1]) if limited else None,
    )


@cache
def _compiled(scene: SceneSpec) -> mujoco.MjModel:
    return compile_model(robot_urdf(), scene)[0]
