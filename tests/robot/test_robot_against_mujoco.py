"""The robot model and the linter held against MuJoCo's own reading of the same URDF."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.robot.check import check_robot
from tether.robot.description import expand
from tether.robot.findings import Severity
from tether.robot.model import RobotModel, load_robot
from tether.robot.raw import read_robot
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import parse_xml

ROVER = Path(__file__).parents[2] / "urdf/tether_rover.urdf.xacro"
COMPILER = '<mujoco><compiler fusestatic="false" discardvisual="true" strippath="false"/></mujoco>'


@pytest.fixture(scope="module")
def rover() -> RobotModel:
    return load_robot(ROVER)


@pytest.fixture(scope="module")
def bodies() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(expand(ROVER).replace("</robot>", f"{COMPILER}</robot>"))


def pose(model: mujoco.MjModel, data: mujoco.MjData, link: str) -> tuple[np.ndarray, np.ndarray]:
    if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, link) < 0:  # MuJoCo makes the root the world
        return np.zeros(3), np.eye(3)
    body = data.body(link)
    return body.xpos.copy(), body.xmat.reshape(3, 3).copy()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=9, max_size=9), st.data())
def test_poses_of_all_links_equal_those_of_mujoco(
    rover: RobotModel, bodies: mujoco.MjModel, shares: list[float], data: st.DataObject
) -> None:
    lower = np.where(np.isfinite(rover.lower), rover.lower, -np.pi)
    upper = np.where(np.isfinite(rover.upper), rover.upper, np.pi)
    q = lower + np.array(shares) * (upper - lower)
    state = mujoco.MjData(bodies)
    for name, position in rover.positions(q).items():
        state.joint(name).qpos[0] = position
    mujoco.mj_kinematics(bodies, state)
    base = data.draw(st.sampled_from([link.name for link in rover.links]))
    p_base, r_base = pose(bodies, state, base)
    for link in rover.links:
        p_link, r_link = pose(bodies, state, link.name)
        position, rotation = rover.transform(base, link.name, q)
        np.testing.assert_allclose(position, r_base.T @ (p_link - p_base), atol=1e-9)
        np.testing.assert_allclose(rotation, r_base.T @ r_link, atol=1e-9)


def test_masses_limits_and_joint_order_equal_those_of_mujoco(rover: RobotModel, bodies: mujoco.MjModel) -> None:
    for link in rover.links:
        if link.name != rover.root and link.mass_kg > 0.0:
            body = bodies.body(link.name)
            assert body.mass[0] == pytest.approx(link.mass_kg, rel=1e-9)
            np.testing.assert_allclose(body.ipos, link.p_link_com, atol=1e-9)
            moments = np.linalg.eigvalsh(link.inertia_com_kg_m2)
            np.testing.assert_allclose(np.sort(body.inertia), moments, rtol=1e-6)
    moving = [joint for joint in rover.joints if joint.limits is not None]
    assert {bodies.joint(index).name for index in range(bodies.njnt)} == {joint.name for joint in moving}
    for joint in moving:
        limits, theirs = rover.limits(joint.name), bodies.joint(joint.name)
        if np.isfinite(limits.upper):
            np.testing.assert_allclose(theirs.range, [limits.lower, limits.upper], atol=1e-9)
        assert bodies.jnt_actfrcrange[theirs.id, 1] == pytest.approx(limits.effort)


ONE_JOINT = """<robot name="r"><link name="base"/>
<link name="arm">
<inertial><origin rpy="0.3 0.2 0.1"/><mass value="{mass}"/><inertia {inertia}/></inertial></link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="{axis}"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def mujoco_refuses(text: str) -> bool:
    try:
        mujoco.MjModel.from_xml_string(text)
    except ValueError:
        return True
    return False


def linter_refuses(text: str) -> bool:
    root = parse_xml(text)
    findings = check_robot(read_robot(root), root, ResourceFinder(Path("/nowhere")))
    return any(finding.severity is Severity.ERROR for finding in findings)


MOMENT = st.floats(-0.2, 1.0).map(lambda value: round(value, 3))
PRODUCT = st.sampled_from([0.0, 0.0, 0.0, 0.05, -0.1, 0.3])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["1", "1", "1", "0", "-1"]),
    st.tuples(MOMENT, MOMENT, MOMENT),
    st.tuples(PRODUCT, PRODUCT, PRODUCT),
)
def test_inertias_that_mujoco_refuses_are_those_that_the_linter_calls_errors(
    mass: str, moments: tuple[float, float, float], products: tuple[float, float, float]
) -> None:
    xx, yy, zz = moments
    xy, xz, yz = products
    inertia = f'ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="{xz}" iyz="{yz}"'
    text = ONE_JOINT.format(mass=mass, inertia=inertia, axis="0 0 1")
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    low, middle, high = np.linalg.eigvalsh(matrix)
    if abs(low) < 1e-9 or abs(low + middle - high) < 1e-9:
        return  # on the boundary rounding decides
    assert linter_refuses(text) == mujoco_refuses(text), (low, middle, high)


def test_linter_finds_what_mujoco_passes_over_in_silence() -> None:
    good = 'ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"'
    text = ONE_JOINT.format(mass="1", inertia=good, axis="0 0 1")
    assert not linter_refuses(text)
    assert not mujoco_refuses(text)
    no_effort = text.replace('effort="1"', 'effort="0"')
    assert linter_refuses(no_effort)
    assert not mujoco_refuses(no_effort)
