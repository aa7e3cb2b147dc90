"""The camera's lens, from views of a board held before it, and its place on the robot, from a board in the gripper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from tether.calibrate.board import Board, cv, find
from tether.contracts import F64, U8
from tether.errors import TetherError
from tether.hardware.calibration import CameraCalibration
from tether.rotations import matrix_to_rotvec, rotvec_to_matrix

MIN_VIEWS = 12
MIN_POSES = 8
_STILL_COUNTS = 4.0
_OTHER_PX = 12.0
"""A view counts as another one where corners moved by this much on average."""
_LENS_SIGMA = 0.01
_NO_BEND = cv.CALIB_ZERO_TANGENT_DIST | cv.CALIB_FIX_K1 | cv.CALIB_FIX_K2 | cv.CALIB_FIX_K3


class ViewCollector:
    """Takes those pictures out of a stream in which the board is seen whole, is still, and stands as in no other."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._before: U8 | None = None
        self._looked = False
        self.views: list[F64] = []

    def take(self, rgb: U8) -> bool:
        """Whether this picture has become a view. The board is looked for once each time the picture stands still."""
        before, self._before = self._before, rgb
        if before is None or _changed(rgb, before):
            self._looked = False
            return False
        if self._looked:
            return False
        self._looked = True
        corners = find(rgb, self._board)
        if corners is None or any(_apart(corners, view) < _OTHER_PX for view in self.views):
            return False
        self.views.append(corners)
        return True


def _changed(rgb: U8, before: U8) -> bool:
    """Whether more has changed than a sensor's noise explains, in blocks of 8 × 8."""
    height, width = (n // 8 * 8 for n in rgb.shape[:2])
    change = rgb[:height, :width].astype(np.float32).mean(axis=2) - before[:height, :width].astype(np.float32).mean(
        axis=2
    )
    blocks = np.abs(change.reshape(height // 8, 8, width // 8, 8).mean(axis=(1, 3)))
    return bool(np.percentile(blocks, 99) > _STILL_COUNTS)


def _apart(a: F64, b: F64) -> float:
    return float(np.linalg.norm(a - b, axis=1).mean())


@dataclass(frozen=True)
class Lens:
    """Intrinsics, how sure fx and fy are (one sigma, share), what the fit leaves, and what a bent lens would explain.

    bent_px: farthest that a corner moves when radial distortion is fitted, too; the calibration holds no distortion.
    """

    camera: CameraCalibration
    sigma: float
    rms_px: float
    bent_px: float
    views: int


def lens(views: Sequence[F64], board: Board, width: int, height: int) -> Lens:
    """Fit a pinhole. TetherError for too few views, or where they do not determine it."""
    if len(views) < MIN_VIEWS:
        raise TetherError(
            f"camera: the board was seen in {len(views)} positions, expected at least {MIN_VIEWS}; fix: hold it still, "
            "tilted to all sides, near and far, in every corner of the picture"
        )
    points = [board.points().astype(np.float32)] * len(views)
    seen = [view.astype(np.float32) for view in views]
    rms, k, _, turns, shifts, sigma, _, _ = cv.calibrateCameraExtended(
        points, seen, (width, height), None, None, flags=_NO_BEND
    )
    share = float(max(sigma[0, 0] / k[0, 0], sigma[1, 0] / k[1, 1]))
    if share > _LENS_SIGMA:
        raise TetherError(
            f"camera: the focal length is known to {100 * share:.1f} % only, expected {100 * _LENS_SIGMA:g} %; fix: "
            "tilt the board more (30 to 45 degrees), and bring it nearer"
        )
    _, bent_k, bend, *_ = cv.calibrateCamera(
        points, seen, (width, height), None, None, flags=cv.CALIB_ZERO_TANGENT_DIST | cv.CALIB_FIX_K3
    )
    moved = 0.0
    for turn, shift in zip(turns, shifts, strict=True):
        straight = cv.projectPoints(points[0], turn, shift, bent_k, None)[0]
        curved = cv.projectPoints(points[0], turn, shift, bent_k, bend)[0]
        moved = max(moved, float(np.linalg.norm(straight - curved, axis=2).max()))
    found = CameraCalibration(width, height, float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2]))
    return Lens(found, share, float(rms), moved, len(views))


@dataclass(frozen=True, eq=False)
class Mounting:
    """Where the camera is: p (3,) m, rotation (3, 3) of its optical frame in base_link. rms_px: what the fit leaves."""

    p: F64
    rotation: F64
    rms_px: float
    poses: int


def mounting(
    tools: Sequence[tuple[F64, F64]], views: Sequence[F64], board: Board, camera: CameraCalibration
) -> Mounting:
    """Camera on the robot's base, board in its gripper.

    tools: p and rotation of the tool in base_link for each view. OpenCV's hand-eye solution (Park and Martin, 1994) is
    refined over both unknowns, camera in base and board in tool, by what the corners are off in the pictures.
    TetherError for too few poses, or where they do not determine it.
    """
    if len(views) < MIN_POSES:
        raise TetherError(
            f"mounting: the board was seen in {len(views)} poses of the arm, expected at least {MIN_POSES}"
        )
    k = np.array([[camera.fx, 0.0, camera.cx], [0.0, camera.fy, camera.cy], [0.0, 0.0, 1.0]])
    points = board.points()
    solved = [cv.solvePnP(points, view, k, None, flags=cv.SOLVEPNP_IPPE)[1:] for view in views]
    turns = [rotvec_to_matrix(turn.ravel()) for turn, _ in solved]
    rotation, p = cv.calibrateHandEye(
        [tool[1].T for tool in tools],
        [-tool[1].T @ tool[0] for tool in tools],
        turns,
        [shift.ravel() for _, shift in solved],
        method=cv.CALIB_HAND_EYE_PARK,
    )
    p = p.ravel()
    tool_p, tool_r = tools[0]
    board_r = tool_r.T @ rotation @ turns[0]
    board_p = tool_r.T @ (rotation @ solved[0][1].ravel() + p - tool_p)
    start = np.concatenate([p, matrix_to_rotvec(rotation), board_p, matrix_to_rotvec(board_r)])

    def off(x: F64) -> F64:
        to_camera = rotvec_to_matrix(x[3:6]).T
        on_board = points @ rotvec_to_matrix(x[9:12]).T + x[6:9]
        rows = []
        for (tp, tr), view in zip(tools, views, strict=True):
            seen = ((on_board @ tr.T + tp) - x[:3]) @ to_camera.T @ k.T
            rows.append(seen[:, :2] / seen[:, 2:] - view)
        return np.concatenate(rows).ravel()

    fit = least_squares(off, start, x_scale="jac", loss="soft_l1")
    if np.linalg.matrix_rank(fit.jac, tol=1e-3) < 12:
        raise TetherError("mounting: the poses turn the tool about one axis only; fix: turn the wrist, too")
    rms = float(np.sqrt(np.mean(off(fit.x) ** 2) * 2.0))
    return Mounting(fit.x[:3], rotvec_to_matrix(fit.x[3:6]), rms, len(views))
