"""Where the cube is in a world's picture, from the world's own state: the truth that detections are held against."""

from __future__ import annotations

import mujoco
import numpy as np

from tether.contracts import F64, CameraModel
from tether.world.model import ModelIndex

_CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
_FACES = np.array([(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)])
"""Corners of each face, in their order round it."""
_NEAR_M = 0.02


def cube_outline(
    model: mujoco.MjModel, data: mujoco.MjData, index: ModelIndex, camera: CameraModel
) -> tuple[F64, float]:
    """Box (4,) x1, y1, x2, y2 of the whole cube, hidden parts too, cut at the picture's border, and the area of its
    outline before cutting, in pixels; zeros where the cube is not before the camera.

    Pixel (u, v) covers [u - 0.5, u + 0.5] x [v - 0.5, v + 0.5]. The poses in `data` must be up to date.
    """
    half = float(model.geom_size[index.cube_geom, 0])
    turn = data.geom_xmat[index.cube_geom].reshape(3, 3)
    corners = data.geom_xpos[index.cube_geom] + half * _CORNERS @ turn.T
    local = (corners - data.cam_xpos[index.camera]) @ data.cam_xmat[index.camera].reshape(3, 3)
    depth = -local[:, 2]  # MuJoCo's cameras look along -z with y up
    if depth.min() < _NEAR_M:
        return np.zeros(4), 0.0
    u = camera.k[0, 0] * local[:, 0] / depth + camera.k[0, 2]
    v = -camera.k[1, 1] * local[:, 1] / depth + camera.k[1, 2]
    box = np.array([u.min(), v.min(), u.max(), v.max()])
    high = np.array([camera.width - 0.5, camera.height - 0.5] * 2)
    x, y = u[_FACES], v[_FACES]
    areas = 0.5 * (x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)
    # Each ray through a convex body passes two faces, one in and one out.
    return np.clip(box, -0.5, high), float(np.abs(areas).sum() / 2.0)


def present_outline(
    model: mujoco.MjModel, data: mujoco.MjData, index: ModelIndex, camera: CameraModel
) -> tuple[F64, float]:
    """`cube_outline` after bringing the poses in `data`, which lag a step behind, up to its present state."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    return cube_outline(model, data, index, camera)
