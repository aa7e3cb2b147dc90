"""The compiled world is the robot of the URDF: same joints in the same order, limits, masses, frames."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tether.assembly import ROBOT_FILE, robot
from tether.contracts import F64
from tether.resources import resource_path
from tether.robot.description import expand
from tether.robot.raw import JointType
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import BASE_JOINTS, SceneSpec, compile_model


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return compile_model(expand(resource_path("urdf", ROBOT_FILE)), SceneSpec())[0]


def test_joints_stand_in_the_urdf_order_after_those_that_carry_the_base(model: mujoco.MjModel) -> None:
    moving = [j.name for j in robot().joints if j.type is not JointType.FIXED]
    in_world = [model.joint(i).name for i in range(model.njnt)]
    assert in_world == [*BASE_JOINTS, *moving, "cube"]
    assert tuple(n for n in robot().joint_names if n in COMMAND_JOINTS) == COMMAND_JOINTS


def test_position_limits_equal_the_urdf(model: mujoco.MjModel) -> None:
    for joint in robot().joints:
        if joint.type in (JointType.FIXED, JointType.CONTINUOUS):
            continue
        assert joint.limits is not None
        assert tuple(model.joint(joint.name).range) == (joint.limits.lower, joint.limits.upper)


def test_no_actuated_joint_can_push_harder_than_the_urdf_allows(model: mujoco.MjModel) -> None:
    for name in COMMAND_JOINTS:
        effort = robot().limits(name).effort
        np.testing.assert_allclose(model.jnt_actfrcrange[model.joint(name).id], (-effort, effort))


def test_masses_and_inertias_equal_the_urdf(model: mujoco.MjModel) -> None:
    for link in robot().links:
        body = model.body(link.name)
        assert float(body.mass[0]) == pytest.approx(link.mass_kg)
        if link.mass_kg > 0:
            np.testing.assert_allclose(np.sort(body.inertia), np.linalg.eigvalsh(link.inertia_com_kg_m2), rtol=1e-6)
            np.testing.assert_allclose(body.ipos, link.p_link_com, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_every_frame_stands_where_the_urdf_puts_it(model: mujoco.MjModel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions: dict[str, float] = {}
    for name in robot().joint_names:
        limits = robot().limits(name)
        low, high = (limits.lower, limits.upper) if np.isfinite(limits.lower) else (-3.0, 3.0)
        positions[name] = float(rng.uniform(low, high))
    data = mujoco.MjData(model)
    for name, value in robot().positions(positions).items():
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_kinematics(model, data)
    for link in robot().links:
        p, r = robot().transform("base_link", link.name, positions)
        np.testing.assert_allclose(data.body(link.name).xpos, p, atol=1e-9)
        np.testing.assert_allclose(data.body(link.name).xmat.reshape(3, 3), r, atol=1e-9)


def test_camera_looks_along_the_optical_frame_with_x_right(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    _, optical = robot().transform("base_link", "camera_optical_frame", dict.fromkeys(robot().joint_names, 0.0))
    seen: F64 = data.camera("camera").xmat.reshape(3, 3)
    np.testing.assert_allclose(seen, optical @ np.diag([1.0, -1.0, -1.0]), atol=1e-9)


def test_resting_imu_reads_one_g_upwards(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.ctrl[model.actuator("base_z").id] = 9.81 / SceneSpec().base_frequency_rad_s ** 2
    mujoco.mj_step(model, data, 400)
    np.testing.assert_allclose(data.sensor("accel").data, [0.0, 0.0, 9.81], atol=0.05)
    np.testing.assert_allclose(data.sensor("gyro").data, 0.0, atol=1e-3)


def test_gripper_opens_to_56_mm_and_both_fingers_move(model: mujoco.MjModel) -> None:
    assert 2.0 * robot().limits("gripper").upper >= 0.056
    data = mujoco.MjData(model)
    data.ctrl[model.actuator("base_z").id] = 9.81 / SceneSpec().base_frequency_rad_s ** 2
    data.ctrl[model.actuator("gripper").id] = 0.02
    mujoco.mj_step(model, data, 400)
    assert data.joint("gripper").qpos[0] == pytest.approx(0.02, abs=1e-3)
    assert data.joint("gripper_right").qpos[0] == pytest.approx(0.02, abs=1e-3)


def test_rendering_uses_neither_multisampling_nor_shadows(model: mujoco.MjModel) -> None:
    assert model.vis.quality.offsamples == 0
    assert not model.light_castshadow.any()
