"""The one place where rotations change form, over transforms3d.

Quaternions are x, y, z, w here as everywhere in Tether; transforms3d's w, x, y, z never leaves this module. A
rotation of frame b in frame a is written `a_b`: v_a = R_a_b v_b. rpy are roll, pitch, yaw in rad about the
fixed axes x, y, z (URDF, REP 103: R = Rz(yaw) Ry(pitch) Rx(roll)). A rotation vector is axis · angle, rad.

All functions take stacks: the last one (or two, for matrices) axes hold the rotation, the ones before are
kept. Non-finite numbers, zero quaternions and matrices that are no rotation raise InvalidInputError.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from transforms3d import euler, quaternions

from tether.errors import Fault, InvalidInputError

F64 = NDArray[np.float64]

IDENTITY_XYZW: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
NORM_MIN = 1e-6
"""Quaternions shorter than this are refused as rounding error. ROS drivers send 0 0 0 0 for none."""
ROTATION_TOLERANCE = 1e-6
"""How far a matrix may be from R Rᵀ = 1 (largest element) to be taken for a rotation."""
_SERIES_BELOW_RAD = 1e-4
_FIXED_AXES = "sxyz"


def normalize_quat(quat_xyzw: ArrayLike) -> F64:
    """Return (..., 4) quaternions of length 1. Raises InvalidInputError for zero or non-finite ones."""
    quat = _array("quat_xyzw", quat_xyzw, 4)
    # Scaled by the largest element first: squares of huge or tiny numbers would leave the range of a float.
    largest = np.max(np.abs(quat), axis=-1, keepdims=True)
    if np.any(largest < NORM_MIN):
        _refuse("quat_xyzw", "a quaternion of length 0", f"length 1 (at least {NORM_MIN:g})")
    scaled = quat / largest
    unit: F64 = scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
    return unit


def xyzw_from_wxyz(quat_wxyz: ArrayLike) -> F64:
    """Reorder (..., 4) from w, x, y, z (MuJoCo, Isaac Sim, transforms3d) to x, y, z, w (ROS, Tether)."""
    return np.roll(_array("quat_wxyz", quat_wxyz, 4), -1, axis=-1)


def wxyz_from_xyzw(quat_xyzw: ArrayLike) -> F64:
    """Reorder (..., 4) from x, y, z, w to w, x, y, z."""
    return np.roll(_array("quat_xyzw", quat_xyzw, 4), 1, axis=-1)


def quat_to_matrix(quat_xyzw: ArrayLike) -> F64:
    """Return (..., 3, 3) rotation matrices of (..., 4) quaternions of any length above 1e-6."""
    quat = normalize_quat(quat_xyzw)
    x, y, z, w = quat[..., 0], quat[..., 1], quat[..., 2], quat[..., 3]
    matrix = np.empty((*quat.shape[:-1], 3, 3))
    matrix[..., 0, 0] = 1 - 2 * (y * y + z * z)
    matrix[..., 0, 1] = 2 * (x * y - w * z)
    matrix[..., 0, 2] = 2 * (x * z + w * y)
    matrix[..., 1, 0] = 2 * (x * y + w * z)
    matrix[..., 1, 1] = 1 - 2 * (x * x + z * z)
    matrix[..., 1, 2] = 2 * (y * z - w * x)
    matrix[..., 2, 0] = 2 * (x * z - w * y)
    matrix[..., 2, 1] = 2 * (y * z + w * x)
    matrix[..., 2, 2] = 1 - 2 * (x * x + y * y)
    return matrix


def matrix_to_quat(matrix: ArrayLike) -> F64:
    """Return (..., 4) unit quaternions, w ≥ 0, of (..., 3, 3) rotation matrices (Bar-Itzhack's method)."""
    return xyzw_from_wxyz(_each(quaternions.mat2quat, _rotation(matrix), 2, 4))


def rpy_to_matrix(rpy: ArrayLike) -> F64:
    """Return (..., 3, 3) matrices of (..., 3) roll, pitch, yaw."""
    return _each(lambda angles: euler.euler2mat(*angles, axes=_FIXED_AXES), _array("rpy", rpy, 3), 1, 3, 3)


def matrix_to_rpy(matrix: ArrayLike) -> F64:
    """Return (..., 3) roll, pitch, yaw; pitch in [−π/2, π/2]. At ±π/2 yaw is 0, roll takes the whole turn."""
    return _each(lambda one: np.array(euler.mat2euler(one, axes=_FIXED_AXES)), _rotation(matrix), 2, 3)


def rpy_to_quat(rpy: ArrayLike) -> F64:
    """Return (..., 4) unit quaternions, w ≥ 0, of (..., 3) roll, pitch, yaw."""
    wxyz = _each(lambda angles: euler.euler2quat(*angles, axes=_FIXED_AXES), _array("rpy", rpy, 3), 1, 4)
    return _positive(xyzw_from_wxyz(wxyz))


def quat_to_rpy(quat_xyzw: ArrayLike) -> F64:
    """Return (..., 3) roll, pitch, yaw; see `matrix_to_rpy`."""
    return matrix_to_rpy(quat_to_matrix(quat_xyzw))


def quat_multiply(a_b_xyzw: ArrayLike, b_c_xyzw: ArrayLike) -> F64:
    """Return the rotation a_c = a_b · b_c; (..., 4), broadcast, not normalised."""
    a, b = _array("a_b_xyzw", a_b_xyzw, 4), _array("b_c_xyzw", b_c_xyzw, 4)
    x, y, z, w = a[..., 0], a[..., 1], a[..., 2], a[..., 3]
    i, j, k, r = b[..., 0], b[..., 1], b[..., 2], b[..., 3]
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    product[..., 0] = w * i + x * r + y * k - z * j
    product[..., 1] = w * j - x * k + y * r + z * i
    product[..., 2] = w * k + x * j - y * i + z * r
    product[..., 3] = w * r - x * i - y * j - z * k
    return product


def quat_inverse(quat_xyzw: ArrayLike) -> F64:
    """Return (..., 4) unit quaternions of the opposite rotations."""
    inverse: F64 = normalize_quat(quat_xyzw) * np.array([-1.0, -1.0, -1.0, 1.0])
    return inverse


def rotate(quat_xyzw: ArrayLike, vectors: ArrayLike) -> F64:
    """Return (..., 3) vectors turned by (..., 4) quaternions, broadcast: v_a = q_a_b v_b."""
    quat, vector = normalize_quat(quat_xyzw), _array("vectors", vectors, 3)
    axis, w = quat[..., :3], quat[..., 3:]
    twice = 2.0 * np.cross(axis, vector)
    turned: F64 = vector + w * twice + np.cross(axis, twice)
    return turned


def rotvec_to_quat(rotvec: ArrayLike) -> F64:
    """Return (..., 4) unit quaternions of (..., 3) rotation vectors; w may be negative for angles above π."""
    vector = _array("rotvec", rotvec, 3)
    angle = np.linalg.norm(vector, axis=-1, keepdims=True)
    small = angle < _SERIES_BELOW_RAD
    # sin(a/2)/a = 1/2 − a²/48 + …; the next term is below 1e-19 here.
    scale = np.where(small, 0.5 - angle**2 / 48.0, np.sin(angle / 2.0) / np.where(small, 1.0, angle))
    quat: F64 = np.concatenate([vector * scale, np.cos(angle / 2.0)], axis=-1)
    return quat


def quat_to_rotvec(quat_xyzw: ArrayLike) -> F64:
    """Return (..., 3) rotation vectors, the shorter way round: angle in [0, π]."""
    quat = _positive(normalize_quat(quat_xyzw))
    sine, w = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True), quat[..., 3:]
    angle = 2.0 * np.arctan2(sine, w)
    small = sine < _SERIES_BELOW_RAD
    # a / sin(a/2) = 2 (1 + s²/6 + …) with s = sin(a/2).
    scale = np.where(small, 2.0 + sine**2 / 3.0, angle / np.where(small, 1.0, sine))
    vector: F64 = quat[..., :3] * scale
    return vector


def rotvec_to_matrix(rotvec: ArrayLike) -> F64:
    """Return (..., 3, 3) matrices of (..., 3) rotation vectors."""
    return quat_to_matrix(rotvec_to_quat(rotvec))


def matrix_to_rotvec(matrix: ArrayLike) -> F64:
    """Return (..., 3) rotation vectors of (..., 3, 3) rotation matrices; angle in [0, π]."""
    return quat_to_rotvec(matrix_to_quat(matrix))


def angle_between(a_xyzw: ArrayLike, b_xyzw: ArrayLike) -> F64:
    """Return (...,) angles in [0, π] rad of the rotation from one orientation to the other."""
    turn = quat_to_rotvec(quat_multiply(quat_inverse(a_xyzw), normalize_quat(b_xyzw)))
    angle: F64 = np.linalg.norm(turn, axis=-1)
    return angle


def slerp(a_xyzw: ArrayLike, b_xyzw: ArrayLike, fraction: ArrayLike) -> F64:
    """Return (..., 4) orientations on the shortest way from a (fraction 0) to b (1), at constant speed.

    fraction: (...,), broadcast; outside [0, 1] the turn is carried on. q and −q are the same orientation
    here.
    """
    start = normalize_quat(a_xyzw)
    turn = quat_to_rotvec(quat_multiply(quat_inverse(start), normalize_quat(b_xyzw)))
    share = np.asarray(fraction, dtype=np.float64)
    if not np.isfinite(share).all():
        _refuse("fraction", "a number that is not finite", "finite numbers")
    return normalize_quat(quat_multiply(start, rotvec_to_quat(turn * share[..., np.newaxis])))


def _array(name: str, value: ArrayLike, last: int) -> F64:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != last:
        _refuse(name, f"shape {array.shape}", f"(..., {last})")
    if not np.isfinite(array).all():
        _refuse(name, "a number that is not finite", "finite numbers")
    return array


def _rotation(matrix: ArrayLike) -> F64:
    array = _array("matrix", matrix, 3)
    if array.ndim < 2 or array.shape[-2] != 3:
        _refuse("matrix", f"shape {array.shape}", "(..., 3, 3)")
    off = np.abs(array @ np.swapaxes(array, -1, -2) - np.eye(3)).max(initial=0.0)
    if off > ROTATION_TOLERANCE:
        _refuse("matrix", f"R Rᵀ off from 1 by {off:.3g}", f"a rotation matrix (within {ROTATION_TOLERANCE:g})")
    if np.any(np.linalg.det(array) < 0.0):
        _refuse("matrix", "a mirror image (determinant −1)", "a rotation matrix (determinant +1)")
    return array


def _positive(quat: F64) -> F64:
    return np.where(quat[..., 3:] < 0.0, -quat, quat)


def _each(function: Callable[[F64], F64], stack: F64, axes: int, *shape: int) -> F64:
    """Apply a function of transforms3d, which takes one rotation, to each of a stack."""
    before, after = stack.shape[: stack.ndim - axes], stack.shape[stack.ndim - axes :]
    flat = [function(one) for one in stack.reshape((-1, *after))]
    return np.array(flat, dtype=np.float64).reshape(*before, *shape)


def _refuse(name: str, found: str, expected: str) -> None:
    raise InvalidInputError("rotation", [Fault(name, found, expected)])
