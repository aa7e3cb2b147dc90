"""The robot that Isaac Lab simulates is the one that the URDF describes and MuJoCo simulates."""

from __future__ import annotations

import numpy as np
import pytest

from tether.assembly import robot
from tether.robot.roles import COMMAND_JOINTS
from tether_isaac.drives import drives
from tether_isaac.env import PickEnv
from tether_isaac.files import scene_of
from tether_isaac.robot_cfg import articulated_names

FLOAT32 = 2e-6
"""USD and Newton hold float32, limits in degrees at that."""


def of(env: PickEnv, field: str) -> np.ndarray:
    return getattr(env.scene["robot"].data, field).torch.cpu().numpy()


def test_commanded_joints_stand_in_the_robots_order_in_the_articulation(env: PickEnv) -> None:
    names = [name for name in env.scene["robot"].joint_names if name in COMMAND_JOINTS]
    assert tuple(names) == COMMAND_JOINTS == env.world(0).joint_names


def test_articulation_has_exactly_the_joints_that_move(env: PickEnv) -> None:
    assert sorted(env.scene["robot"].joint_names) == sorted(articulated_names(robot()))


def test_position_limits_are_those_of_the_urdf(env: PickEnv) -> None:
    names = list(env.scene["robot"].joint_names)
    for found in of(env, "joint_pos_limits"):
        for name in COMMAND_JOINTS:
            limits = robot().limits(name)
            assert found[names.index(name)] == pytest.approx((limits.lower, limits.upper), abs=FLOAT32, rel=FLOAT32)


def test_every_link_with_a_mass_has_it_in_the_articulation(env: PickEnv) -> None:
    names = list(env.scene["robot"].body_names)
    masses = of(env, "body_mass")
    for link in robot().links:
        if link.mass_kg > 0.0:
            assert masses[:, names.index(link.name)] == pytest.approx(link.mass_kg, rel=FLOAT32), link.name


def test_what_carries_the_base_weighs_a_gram_at_most(env: PickEnv) -> None:
    total = float(of(env, "body_mass")[0].sum())
    assert robot().mass_kg <= total <= robot().mass_kg + 1e-3


@pytest.mark.parametrize(
    ("field", "of_drive"),
    [
        ("joint_stiffness", "stiffness"),
        ("joint_damping", "damping"),
        ("joint_armature", "armature"),
        ("joint_friction_coeff", "friction"),
        ("joint_viscous_friction_coeff", "viscous"),
    ],
)
def test_drives_are_those_that_mujoco_compiles(env: PickEnv, field: str, of_drive: str) -> None:
    expected = drives(robot(), scene_of(env.task))
    found = dict(zip(env.scene["robot"].joint_names, of(env, field)[0], strict=True))
    for name, drive in expected.items():
        assert found[name] == pytest.approx(getattr(drive, of_drive), rel=1e-5, abs=1e-9), name


def test_effort_limits_of_the_servos_are_those_of_the_urdf(env: PickEnv) -> None:
    found = dict(zip(env.scene["robot"].joint_names, of(env, "joint_effort_limits")[0], strict=True))
    for name in COMMAND_JOINTS:
        assert found[name] == pytest.approx(robot().limits(name).effort, rel=1e-6)


def test_frames_of_the_articulation_are_those_of_the_kinematics(env: PickEnv) -> None:
    """Positions and orientations (x, y, z, w) of every link at the start pose, base standing on the ground."""
    env.reset(seed=0)
    scene, names = env.scene["robot"], list(env.scene["robot"].body_names)
    joints = dict(zip(scene.joint_names, of(env, "joint_pos")[0].tolist(), strict=True))
    q = {name: joints[name] for name in robot().joint_names}
    poses, origin = of(env, "body_link_pose_w")[0], env.scene.env_origins[0].cpu().numpy()
    for link in robot().links:
        if link.mass_kg > 0.0:
            position, rotation = robot().transform("base_link", link.name, q)
            found = poses[names.index(link.name)]
            assert found[:3] - origin == pytest.approx(position, abs=1e-5), link.name
            x, y, z, w = found[3:].tolist()
            # First column of the rotation, written out: this is what tells x, y, z, w from w, x, y, z.
            column = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
            assert column == pytest.approx(rotation[:, 0], abs=1e-5), link.name
