"""The camera's steps on a bench: a board held before it for the lens, and in the gripper for its place on the robot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tether.calibrate.bench import Bench, Operator
from tether.calibrate.board import Board, find
from tether.calibrate.camera import Lens, Mounting, ViewCollector, lens, mounting
from tether.calibrate.stand import EmulatedBench, nominal_camera, tool_pose
from tether.contracts import F64
from tether.errors import TetherError
from tether.hardware.calibration import CameraCalibration
from tether.hardware.emulate.board import BoardInView, after, inverse
from tether.rotations import matrix_to_rotvec

VIEWS = 14
POSES = 10
_LOOK_S, _SETTLE_S = 0.6, 0.5
_SPREAD_RAD = np.array([0.25, 0.20, 0.20, 0.35, 0.50, 0.0])
_LOWEST_M = 0.07


def measure_lens(bench: Bench, operator: Operator, seconds: float) -> Lens:
    """Look for `seconds` at a board that somebody holds before the camera; enough views end it sooner."""
    board, model = Board(), bench.world.camera_model
    if isinstance(bench, EmulatedBench):
        bench.hil.emulated.board = BoardInView(board, model.k, None)
    collector = ViewCollector(board)
    for _ in range(round(seconds / _LOOK_S)):
        for _, rgb in operator.hold(_LOOK_S).pictures:
            collector.take(rgb)
        if len(collector.views) >= VIEWS:
            break
    return lens(collector.views, board, model.width, model.height)


def measure_mounting(bench: Bench, operator: Operator, camera: CameraCalibration) -> Mounting:
    """Take the board in the gripper through poses about where the arm stands."""
    board, start = Board(), operator.get_ready()
    if isinstance(bench, EmulatedBench):
        bench.hil.emulated.board = BoardInView(board, bench.world.camera_model.k, in_gripper(board, start))
    rng, tools, views = np.random.default_rng(0), [], []
    for _ in range(4 * POSES):
        goal = start + rng.uniform(-1.0, 1.0, len(start)) * _SPREAD_RAD
        if tool_pose(goal)[0][2] < _LOWEST_M:
            continue
        operator.move(goal)
        operator.hold(_SETTLE_S)
        recording = operator.hold(0.2)
        corners = None if not recording.pictures else find(recording.pictures[-1][1], board)
        if corners is not None and recording.joints:
            views.append(corners)
            tools.append(tool_pose(np.mean([position for _, position, _ in recording.joints], axis=0)))
        if len(views) == POSES:
            break
    operator.move(start)
    if len(views) < POSES:
        raise TetherError(
            f"mounting: the board was seen in {len(views)} of {4 * POSES} poses, expected {POSES}; fix: clamp it so "
            "that it faces the camera"
        )
    return mounting(tools, views, board, camera)


def in_gripper(board: Board, position: F64) -> tuple[F64, F64]:
    """Where the tool holds a board that faces the camera when the arm stands like this, with its middle in tcp."""
    camera, tool = nominal_camera(), tool_pose(position)
    middle = 0.5 * board.square_m * np.array([board.columns - 1, board.rows - 1, 0.0])
    seen = after(inverse(camera), tool)
    return after(inverse(tool), after(camera, (seen[0] - middle, np.eye(3))))


def fovy_rad(camera: CameraCalibration) -> float:
    """Vertical field of view, as profiles have it."""
    return 2.0 * math.atan(camera.height / (2.0 * camera.fy))


def mounting_figures(place: Mounting) -> dict[str, Any]:
    """The place, how far it is from the description's, and the description's properties that would say it."""
    p, rotation = nominal_camera()
    forward = place.rotation[:, 2]  # the optical frame looks along +z
    off = float(np.linalg.norm(matrix_to_rotvec(rotation.T @ place.rotation)))
    x, y, z = (float(value) for value in place.p)
    return {
        "camera_x": x,
        "camera_y": y,
        "camera_z": z,
        "camera_yaw": math.atan2(float(forward[1]), float(forward[0])),
        "camera_pitch": math.asin(-float(forward[2])),
        "from_description_mm": 1e3 * float(np.linalg.norm(place.p - p)),
        "from_description_deg": math.degrees(off),
        "rms_px": place.rms_px,
        "poses": place.poses,
    }
