"""A board that is drawn where we know is found there; a lens and a mounting that are known are found again."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("cv2", reason="needs OpenCV (extra calibrate)")

from tether.calibrate.board import Board, find
from tether.calibrate.camera import MIN_VIEWS, ViewCollector, lens, mounting
from tether.calibrate.stand import nominal_camera, tool_pose
from tether.calibrate.views import in_gripper
from tether.errors import InvalidInputError, TetherError
from tether.hardware.calibration import CameraCalibration
from tether.hardware.emulate.board import BoardInView, after, inverse
from tether.rotations import matrix_to_rotvec, rotvec_to_matrix

BOARD = Board()
K = np.array([[242.2, 0.0, 159.5], [0.0, 242.2, 119.5], [0.0, 0.0, 1.0]])
ORIGIN = (np.zeros(3), np.eye(3))
GREY = np.full((240, 320, 3), 120, np.uint8)


def projected(pose: tuple[np.ndarray, np.ndarray], points: np.ndarray) -> np.ndarray:
    seen = (points @ pose[1].T + pose[0]) @ K.T
    return seen[:, :2] / seen[:, 2:]


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.4, -0.3, 0.3), (0.0, 0.0, np.pi), (-0.5, 0.2, 2.6)])
def test_corners_are_found_within_0_6_px_in_their_order_however_the_board_is_turned(turn) -> None:
    rotation = rotvec_to_matrix(np.array(turn))
    middle = BOARD.points().mean(axis=0)
    pose = (np.array([0.0, 0.0, 0.2]) - rotation @ middle, rotation)
    picture = BoardInView(BOARD, K, pose).drawn(GREY, 0, ORIGIN, ORIGIN)
    corners = find(picture, BOARD)
    assert corners is not None
    assert np.abs(corners - projected(pose, BOARD.points())).max() < 0.6


def test_no_board_is_seen_where_there_is_none() -> None:
    noise = np.random.default_rng(0).integers(0, 256, GREY.shape, dtype=np.uint8)
    assert find(noise, BOARD) is None


def test_a_board_that_could_be_taken_upside_down_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="one of them even and the other odd"):
        Board(columns=8, rows=6)


def test_the_printed_board_has_its_squares_to_scale() -> None:
    svg = ElementTree.fromstring(BOARD.svg())
    squares = [node for node in svg if node.get("fill") is None]
    assert {node.get("width") for node in squares} == {"12"}
    assert len(squares) == 27
    assert svg.get("width") == "132mm"


def test_focal_length_and_centre_are_found_from_views_of_a_hand_held_board() -> None:
    view, collector = BoardInView(BOARD, K, None), ViewCollector(BOARD)
    for i in range(20):
        for part in range(3):
            collector.take(view.drawn(GREY, i * 600_000_000 + part * 33_000_000, ORIGIN, ORIGIN))
    found = lens(collector.views, BOARD, 320, 240)
    assert found.views >= MIN_VIEWS
    assert found.camera.fx == pytest.approx(242.2, rel=0.01)
    assert found.camera.fy == pytest.approx(242.2, rel=0.01)
    assert (found.camera.cx, found.camera.cy) == (pytest.approx(159.5, abs=2.5), pytest.approx(119.5, abs=2.5))
    assert found.rms_px < 0.35
    assert found.bent_px < 1.0
    with pytest.raises(TetherError, match="expected at least 12"):
        lens(collector.views[:5], BOARD, 320, 240)


def arm_views(camera: tuple[np.ndarray, np.ndarray], spread: np.ndarray, noise_px: float = 0.15):
    """Poses of the tool, and where the corners are seen from a camera that is not quite where it is drawn."""
    rng = np.random.default_rng(5)
    start = np.array([0.0, -1.75, 1.95, 1.37, 0.75, 0.022])
    held, tools, views = in_gripper(BOARD, start), [], []
    for _ in range(12):
        tool = tool_pose(start + rng.uniform(-1.0, 1.0, 6) * spread)
        seen = projected(after(inverse(camera), after(tool, held)), BOARD.points())
        tools.append(tool)
        views.append(seen + rng.normal(0.0, noise_px, seen.shape))
    return tools, views


def test_the_cameras_place_is_found_within_1_mm_and_a_third_of_a_degree() -> None:
    p, rotation = nominal_camera()
    true = (p + np.array([0.004, -0.006, 0.003]), rotation @ rotvec_to_matrix(np.array([0.02, -0.03, 0.01])))
    tools, views = arm_views(true, np.array([0.25, 0.2, 0.2, 0.35, 0.5, 0.0]))
    found = mounting(tools, views, BOARD, CameraCalibration(320, 240, 242.2, 242.2, 159.5, 119.5))
    assert np.linalg.norm(found.p - true[0]) < 0.001
    assert np.rad2deg(np.linalg.norm(matrix_to_rotvec(found.rotation.T @ true[1]))) < 0.33
    assert found.rms_px < 0.3


def test_too_few_poses_are_refused() -> None:
    tools, views = arm_views(nominal_camera(), np.array([0.25, 0.2, 0.2, 0.35, 0.5, 0.0]))
    camera = CameraCalibration(320, 240, 242.2, 242.2, 159.5, 119.5)
    with pytest.raises(TetherError, match="expected at least 8"):
        mounting(tools[:4], views[:4], BOARD, camera)
