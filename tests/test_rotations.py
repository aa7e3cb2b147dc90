"""Rotations: agreement with transforms3d, round trips, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from transforms3d import quaternions

from tether import rotations as rot
from tether.errors import InvalidInputError

ANGLE = st.floats(-10.0, 10.0)
VECTOR = st_np.arrays(np.float64, 3, elements=st.floats(-3.0, 3.0))
QUAT = (
    st_np.arrays(np.float64, 4, elements=st.floats(-1.0, 1.0))
    .filter(lambda quat: np.linalg.norm(quat) > 1e-3)
    .map(lambda quat: quat / np.linalg.norm(quat))
)


def same_orientation(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> bool:
    return bool(min(np.abs(a - b).max(), np.abs(a + b).max()) < tolerance)


@given(QUAT)
def test_matrix_equals_that_of_transforms3d(quat: np.ndarray) -> None:
    expected = quaternions.quat2mat(np.roll(quat, 1))
    np.testing.assert_allclose(rot.quat_to_matrix(quat), expected, atol=1e-12)


@given(QUAT)
def test_quaternion_survives_the_way_through_matrix_and_rotation_vector(quat: np.ndarray) -> None:
    assert same_orientation(rot.matrix_to_quat(rot.quat_to_matrix(quat)), quat, 1e-7)
    assert same_orientation(rot.rotvec_to_quat(rot.quat_to_rotvec(quat)), quat)


@given(QUAT)
def test_reordering_is_undone_by_its_opposite_and_puts_w_first(quat: np.ndarray) -> None:
    np.testing.assert_array_equal(rot.xyzw_from_wxyz(rot.wxyz_from_xyzw(quat)), quat)
    assert rot.wxyz_from_xyzw(quat)[0] == quat[3]


@given(ANGLE, ANGLE, ANGLE)
def test_rpy_is_yaw_after_pitch_after_roll(roll: float, pitch: float, yaw: float) -> None:
    rx = rot.rotvec_to_matrix([roll, 0.0, 0.0])
    ry = rot.rotvec_to_matrix([0.0, pitch, 0.0])
    rz = rot.rotvec_to_matrix([0.0, 0.0, yaw])
    np.testing.assert_allclose(rot.rpy_to_matrix([roll, pitch, yaw]), rz @ ry @ rx, atol=1e-9)


@given(ANGLE, ANGLE, ANGLE)
def test_rpy_read_back_gives_the_same_rotation_also_at_the_singularity(roll: float, pitch: float, yaw: float) -> None:
    for angles in ([roll, pitch, yaw], [roll, math.pi / 2, yaw], [roll, -math.pi / 2, yaw]):
        matrix = rot.rpy_to_matrix(angles)
        np.testing.assert_allclose(rot.rpy_to_matrix(rot.matrix_to_rpy(matrix)), matrix, atol=1e-6)
        np.testing.assert_allclose(rot.quat_to_matrix(rot.rpy_to_quat(angles)), matrix, atol=1e-9)


@given(QUAT, QUAT)
def test_product_of_quaternions_is_product_of_matrices(a: np.ndarray, b: np.ndarray) -> None:
    product = rot.quat_to_matrix(rot.quat_multiply(a, b))
    np.testing.assert_allclose(product, rot.quat_to_matrix(a) @ rot.quat_to_matrix(b), atol=1e-9)


@given(QUAT, VECTOR)
def test_rotating_a_vector_equals_the_matrix_and_is_undone_by_the_inverse(quat: np.ndarray, vector: np.ndarray) -> None:
    turned = rot.rotate(quat, vector)
    np.testing.assert_allclose(turned, rot.quat_to_matrix(quat) @ vector, atol=1e-9)
    np.testing.assert_allclose(rot.rotate(rot.quat_inverse(quat), turned), vector, atol=1e-9)


@given(QUAT, QUAT, st.floats(0.0, 1.0))
def test_slerp_goes_the_short_way_at_constant_speed(a: np.ndarray, b: np.ndarray, share: float) -> None:
    whole = float(rot.angle_between(a, b))
    middle = rot.slerp(a, b, share)
    assert whole <= math.pi + 1e-9
    assert float(rot.angle_between(a, middle)) == pytest.approx(whole * share, abs=1e-6)
    assert float(rot.angle_between(middle, b)) == pytest.approx(whole * (1.0 - share), abs=1e-6)


@given(QUAT, QUAT)
def test_slerp_does_not_care_for_the_sign_of_a_quaternion(a: np.ndarray, b: np.ndarray) -> None:
    if float(rot.angle_between(a, b)) < math.pi - 1e-6:  # at half a turn both ways are equally short
        assert same_orientation(rot.slerp(a, b, 0.3), rot.slerp(-a, b, 0.3), 1e-7)


@given(st.floats(1e-300, 1e-4))
def test_tiny_rotation_vectors_keep_their_relative_accuracy(angle: float) -> None:
    back = rot.quat_to_rotvec(rot.rotvec_to_quat([angle, 0.0, 0.0]))
    assert back[0] == pytest.approx(angle, rel=1e-12)


@given(QUAT, st.floats(1e-5, 1e300))
def test_length_of_a_quaternion_does_not_matter(quat: np.ndarray, scale: float) -> None:
    np.testing.assert_allclose(rot.normalize_quat(quat * scale), quat, atol=1e-12)


def test_stacks_are_converted_element_by_element() -> None:
    generator = np.random.default_rng(0)
    quats = rot.normalize_quat(generator.normal(size=(2, 5, 4)))
    matrices = rot.quat_to_matrix(quats)
    assert matrices.shape == (2, 5, 3, 3)
    assert rot.matrix_to_quat(matrices).shape == (2, 5, 4)
    assert rot.matrix_to_rpy(matrices).shape == (2, 5, 3)
    assert rot.rpy_to_matrix(np.zeros((0, 3))).shape == (0, 3, 3)
    np.testing.assert_allclose(rot.quat_to_matrix(rot.matrix_to_quat(matrices)), matrices, atol=1e-12)
    np.testing.assert_array_equal(matrices[1, 3], rot.quat_to_matrix(quats[1, 3]))
    halfway = rot.slerp(quats[0], quats[1], np.full(5, 0.5))
    np.testing.assert_allclose(halfway[2], rot.slerp(quats[0, 2], quats[1, 2], 0.5), atol=1e-15)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: rot.normalize_quat([0.0, 0.0, 0.0, 0.0]), "length 0"),
        (lambda: rot.quat_to_matrix([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1e-9]]), "length 0"),
        (lambda: rot.quat_to_rpy([math.nan, 0.0, 0.0, 1.0]), "not finite"),
        (lambda: rot.rotvec_to_quat([0.0, math.inf, 0.0]), "not finite"),
        (lambda: rot.slerp([0, 0, 0, 1], [0, 0, 1, 0], math.nan), "not finite"),
        (lambda: rot.rpy_to_matrix([0.0, 0.0]), "shape (2,)"),
        (lambda: rot.quat_to_matrix(1.0), "shape ()"),
        (lambda: rot.matrix_to_quat(np.eye(3)[0]), "shape (3,)"),
        (lambda: rot.matrix_to_quat(2.0 * np.eye(3)), "off from 1"),
        (lambda: rot.matrix_to_quat(np.diag([1.0, 1.0, -1.0])), "mirror image"),
    ],
)
def test_what_is_no_rotation_is_refused_by_name(call, found: str) -> None:
    with pytest.raises(InvalidInputError, match="rotation") as refusal:
        call()
    assert found in refusal.value.faults[0].found
