"""The robot model: what is read, kinematics, matching by name, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether import rotations
from tether.errors import InvalidInputError
from tether.robot.model import RobotModel, load_robot, reorder
from tether.robot.raw import JointType

ROOT = Path(__file__).parents[2]
SO101 = ROOT / "tests/data/urdf/so101/so101_new_calib.urdf"
LEKIWI = ROOT / "tests/data/urdf/lekiwi/LeKiwi.urdf"

GRIPPER = """<?xml version="1.0"?>
<robot name="two_fingers">
  <link name="palm"/>
  <link name="arm">
    <inertial>
      <origin xyz="0.1 0 0" rpy="0 0 1.5707963267948966"/>
      <mass value="2"/>
      <inertia ixx="1e-3" ixy="0" ixz="0" iyy="2e-3" iyz="0" izz="2.5e-3"/>
    </inertial>
  </link>
  <link name="left"><inertial><mass value="0.1"/>
    <inertia ixx="1e-5" ixy="0" ixz="0" iyy="1e-5" iyz="0" izz="1e-5"/></inertial></link>
  <link name="right"><inertial><mass value="0.1"/>
    <inertia ixx="1e-5" ixy="0" ixz="0" iyy="1e-5" iyz="0" izz="1e-5"/></inertial></link>
  <link name="eye"/>
  <joint name="turn" type="revolute">
    <origin xyz="0 0 1"/><parent link="palm"/><child link="arm"/><axis xyz="0 0 2"/>
    <limit lower="-3" upper="3" effort="4" velocity="5"/><dynamics damping="0.5" friction="0.25"/>
  </joint>
  <joint name="right_slide" type="prismatic">
    <origin xyz="0.5 0 0"/><parent link="arm"/><child link="right"/><axis xyz="0 -1 0"/>
    <limit lower="0" upper="0.05" effort="10" velocity="0.2"/>
    <mimic joint="left_slide" multiplier="2" offset="0.01"/>
  </joint>
  <joint name="left_slide" type="prismatic">
    <origin xyz="0.5 0 0"/><parent link="arm"/><child link="left"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.02" effort="10" velocity="0.1"/>
  </joint>
  <joint name="look" type="fixed">
    <origin xyz="0 0.2 0" rpy="1.5707963267948966 0 0"/><parent link="arm"/><child link="eye"/>
  </joint>
</robot>
"""


@pytest.fixture
def gripper(tmp_path: Path) -> RobotModel:
    return load_robot(write(tmp_path, GRIPPER))


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_commanded_joints_are_those_that_move_and_do_not_mimic_in_file_order(gripper: RobotModel) -> None:
    assert gripper.joint_names == ("turn", "left_slide")
    assert [joint.name for joint in gripper.joints] == ["turn", "right_slide", "left_slide", "look"]
    mimic = gripper.joint("right_slide").mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("left_slide", 2.0, 0.01)


def test_limits_masses_and_dynamics_are_those_of_the_file(gripper: RobotModel) -> None:
    np.testing.assert_array_equal(gripper.lower, [-3.0, 0.0])
    np.testing.assert_array_equal(gripper.upper, [3.0, 0.02])
    np.testing.assert_array_equal(gripper.velocity_limit, [5.0, 0.1])
    np.testing.assert_array_equal(gripper.effort_limit, [4.0, 10.0])
    assert gripper.root == "palm"
    assert gripper.mass_kg == pytest.approx(2.2)
    assert (gripper.joint("turn").damping, gripper.joint("turn").friction) == (0.5, 0.25)
    assert gripper.limits("turn").effort == 4.0
    with pytest.raises(InvalidInputError, match="a fixed joint"):
        gripper.limits("look")


def test_inertia_is_turned_into_the_axes_of_the_link(gripper: RobotModel) -> None:
    arm = gripper.link("arm")
    np.testing.assert_allclose(np.diag(arm.inertia_com_kg_m2), [2e-3, 1e-3, 2.5e-3], atol=1e-12)
    np.testing.assert_array_equal(arm.p_link_com, [0.1, 0.0, 0.0])
    assert gripper.link("eye").mass_kg == 0.0


def test_arrays_of_a_model_cannot_be_written_to(gripper: RobotModel) -> None:
    for array in (gripper.joint("turn").axis, gripper.joint("turn").pose_parent_joint):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_transform_worked_out_by_hand(gripper: RobotModel) -> None:
    position, rotation = gripper.transform("palm", "left", {"left_slide": 0.02, "turn": math.pi / 2})
    np.testing.assert_allclose(position, [-0.02, 0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(rotation, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)


def test_mimic_joint_moves_with_its_source(gripper: RobotModel) -> None:
    q = [0.0, 0.015]
    assert gripper.positions(q) == {"turn": 0.0, "left_slide": 0.015, "right_slide": 0.04}
    np.testing.assert_allclose(gripper.transform("arm", "right", q)[0], [0.5, -0.04, 0.0], atol=1e-15)


def test_transform_between_branches_goes_through_their_common_ancestor(gripper: RobotModel) -> None:
    q = [0.7, 0.01]
    position, rotation = gripper.transform("eye", "left", q)
    np.testing.assert_allclose(position, [0.5, 0.0, 0.2 - 0.01], atol=1e-12)
    np.testing.assert_allclose(rotation, rotations.rpy_to_matrix([-math.pi / 2, 0.0, 0.0]), atol=1e-12)


def test_transform_of_a_link_in_itself_is_the_identity_and_the_callers_own(gripper: RobotModel) -> None:
    position, rotation = gripper.transform("arm", "arm", [1.0, 0.0])
    np.testing.assert_array_equal(rotation, np.eye(3))
    position[0] = 5.0
    assert gripper.transform("arm", "arm", [1.0, 0.0])[0][0] == 0.0


def step_by_step(robot: RobotModel, link: str, positions: dict[str, float]) -> np.ndarray:
    """Pose in the root, worked out the plain way: parent · origin · motion, joint after joint."""
    above = {joint.child: joint for joint in robot.joints}
    pose = np.eye(4)
    while link in above:
        joint = above[link]
        motion = np.eye(4)
        if joint.type is JointType.PRISMATIC:
            motion[:3, 3] = joint.axis * positions[joint.name]
        elif joint.type is not JointType.FIXED:
            motion[:3, :3] = rotations.rotvec_to_matrix(joint.axis * positions[joint.name])
        pose = joint.pose_parent_joint @ motion @ pose
        link = joint.parent
    return pose


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1.6, 1.6), min_size=6, max_size=6), st.data())
def test_kinematics_equal_the_plain_product_of_transforms(q: list[float], data: st.DataObject) -> None:
    robot = load_robot(SO101)
    names = st.sampled_from([link.name for link in robot.links])
    base, link = data.draw(names), data.draw(names)
    positions = robot.positions(q)
    expected = np.linalg.inv(step_by_step(robot, base, positions)) @ step_by_step(robot, link, positions)
    position, rotation = robot.transform(base, link, q)
    np.testing.assert_allclose(position, expected[:3, 3], atol=1e-9)
    np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6))
def test_jacobian_equals_finite_differences(q: list[float]) -> None:
    robot = load_robot(SO101)
    jacobian = robot.jacobian("base_link", "gripper_frame_link", q)
    before, turned = robot.transform("base_link", "gripper_frame_link", q)
    for column in range(6):
        moved = np.array(q)
        moved[column] += 1e-6
        after, turned_after = robot.transform("base_link", "gripper_frame_link", moved)
        spin = rotations.matrix_to_rotvec(turned_after @ turned.T) / 1e-6
        np.testing.assert_allclose(jacobian[:3, column], (after - before) / 1e-6, atol=1e-5)
        np.testing.assert_allclose(jacobian[3:, column], spin, atol=1e-5)


def test_jacobian_counts_what_a_mimic_joint_adds(gripper: RobotModel) -> None:
    np.testing.assert_allclose(gripper.jacobian("arm", "right", [0.0, 0.0])[:3, 1], [0.0, -2.0, 0.0])
    with pytest.raises(InvalidInputError, match=re.escape("an ancestor of 'right': right, arm, palm")):
        gripper.jacobian("eye", "right", [0.0, 0.0])


def test_joints_are_matched_by_name_never_by_position(gripper: RobotModel) -> None:
    np.testing.assert_array_equal(gripper.reorder(["left_slide", "turn"], [0.01, 2.0]), [2.0, 0.01])


def test_missing_extra_repeated_names_and_bad_values_are_all_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        reorder(["b", "b", "x"], [1.0, math.nan, math.inf], ["a", "b"], "joints")
    text = str(refusal.value)
    assert len(refusal.value.faults) == 5
    for part in ("missing: a", "extra: x", "repeated: b", "b: found nan", "x: found inf", "exactly a, b"):
        assert part in text


def test_positions_of_wrong_shape_or_not_finite_are_refused_with_the_joints_named(
    gripper: RobotModel,
) -> None:
    with pytest.raises(InvalidInputError, match="turn, left_slide"):
        gripper.transform("palm", "arm", [0.0])
    with pytest.raises(InvalidInputError, match="left_slide: found nan"):
        gripper.transform("palm", "arm", [0.0, math.nan])
    with pytest.raises(InvalidInputError, match="missing: left_slide"):
        gripper.transform("palm", "arm", {"turn": 0.0})


def test_unknown_links_and_joints_are_refused_with_the_known_ones(gripper: RobotModel) -> None:
    with pytest.raises(InvalidInputError, match="'hand', expected one of palm, arm"):
        gripper.transform("palm", "hand", [0.0, 0.0])
    with pytest.raises(InvalidInputError, match="one of turn"):
        gripper.joint("elbow")


def test_so101_is_read_with_its_six_joints() -> None:
    robot = load_robot(SO101)
    assert robot.joint_names == (
        "gripper", "wrist_roll", "wrist_flex", "elbow_flex", "shoulder_lift", "shoulder_pan"
    )  # fmt: skip
    assert robot.limits("wrist_roll").upper == 2.84121
    assert robot.mass_kg == pytest.approx(0.632006)


def test_robot_without_limits_is_refused_with_each_joint_named() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        load_robot(LEKIWI)
    names = {fault.where for fault in refusal.value.faults}
    assert len(names) == 9
    assert "joint STS3215_03a-v1_Revolute-45" in names


def test_every_fault_of_a_file_is_reported_together(tmp_path: Path) -> None:
    broken = (
        GRIPPER.replace('axis xyz="0 0 2"', 'axis xyz="0 0 0"')
        .replace('lower="0" upper="0.02"', 'lower="1" upper="nan"')
        .replace('<child link="eye"/>', '<child link="eyes"/>')
        .replace('type="prismatic">\n    <origin xyz="0.5 0 0"/><parent link="arm"/><child link="right"/>',
                 'type="floating">\n    <origin xyz="0.5 0 0"/><parent link="arm"/><child link="right"/>')
    )  # fmt: skip
    with pytest.raises(InvalidInputError) as refusal:
        load_robot(write(tmp_path, broken))
    text = str(refusal.value)
    for part in (
        "turn: found axis 0 0 0",
        'upper="nan"',
        "'eyes' does not exist",
        "type floating",
        "link eye",
    ):
        assert part in text, text


def test_something_else_than_a_robot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="<sdf> as its outermost"):
        load_robot(write(tmp_path, "<sdf/>"))


def test_own_robot_is_read_and_its_gripper_closes_symmetrically() -> None:
    robot = load_robot(ROOT / "urdf/tether_rover.urdf.xacro")
    assert robot.joint_names[:3] == ("wheel_left", "wheel_back", "wheel_right")
    assert len(robot.joint_names) == 9
    q = np.zeros(9)
    q[robot.joint_names.index("gripper")] = 0.02
    left = robot.transform("tcp", "finger_left_link", q)[0]
    right = robot.transform("tcp", "finger_right_link", q)[0]
    np.testing.assert_allclose(left + right, [0.0, 0.0, 2 * left[2]], atol=1e-12)
    assert np.isinf(robot.upper[:3]).all()
    assert np.isfinite(robot.velocity_limit).all()
