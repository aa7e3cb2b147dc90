"""How a cube on the ground looks to the robot's camera: the edges of its bounding box, and back to its place.

The camera's mounting is the description's (nominal) one. The cube's turn about the vertical is not known; the box is
that of the mean over a quarter turn, and what the turn does to the box's size is left to the filter's size states.
"""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F64, CameraModel
from tether.robot.model import RobotModel

_YAWS = 4
_NEAR_M = 0.02
"""Nothing nearer than this to the camera's plane is projected."""


class BoxModel:
    """Predicts boxes for one camera mounting and one size of cube. All positions in the base frame."""

    def __init__(self, robot: RobotModel, camera_frame: str, side_m: float) -> None:
        p, rotation = robot.transform("base_link", camera_frame, np.zeros(len(robot.joint_names)))
        self.p_base_camera: F64 = p
        self.r_camera_base: F64 = rotation.T
        self._corners = _turned_corners(side_m) @ rotation

    def edges(self, p: F64, camera: CameraModel) -> F64 | None:
        """Boxes of cubes at p (n, 3): (n, 4) rows x1, y1, x2, y2 in pixels; None where one is not before the camera."""
        centres = (p - self.p_base_camera) @ self.r_camera_base.T
        corners = self._corners + centres[:, None, None, :]
        depth = corners[..., 2]
        if float(depth.min()) < _NEAR_M:
            return None
        k = camera.k
        u = k[0, 0] * corners[..., 0] / depth + k[0, 2]
        v = k[1, 1] * corners[..., 1] / depth + k[1, 2]
        edges = np.array([u.min(axis=2), v.min(axis=2), u.max(axis=2), v.max(axis=2)])
        mean: F64 = edges.sum(axis=2).T / _YAWS
        return mean

    def edges_of(self, p: F64, camera: CameraModel) -> F64 | None:
        """The box (4,) of one cube at p (3,); None where it is not before the camera."""
        edges = self.edges(p[None, :], camera)
        return None if edges is None else edges[0]

    def locate(self, box: F64, z_m: float, camera: CameraModel) -> F64 | None:
        """Place (3,), at height z_m, of the cube whose box has the centre of `box` (4,); None above the horizon.

        The ray through the box's centre gives the first guess; the centre of a cube's box is not the image of the
        cube's centre, so the guess is then moved by the difference, twice.
        """
        k = camera.k
        target = 0.5 * (box[:2] + box[2:])
        aim = target.copy()
        p: F64 | None = None
        for _ in range(3):
            ray = self.r_camera_base.T @ np.array([(aim[0] - k[0, 2]) / k[0, 0], (aim[1] - k[1, 2]) / k[1, 1], 1.0])
            if ray[2] > -1e-3:
                return None
            p = self.p_base_camera + ray * ((z_m - self.p_base_camera[2]) / ray[2])
            seen = self.edges_of(p, camera)
            if seen is None:
                return None
            aim = aim + target - 0.5 * (seen[:2] + seen[2:])
        return p


def _turned_corners(side_m: float) -> F64:
    """(_YAWS, 8, 3) corners about the cube's centre for turns spread over a quarter turn."""
    half = side_m / 2.0
    corners = np.array([(x, y, z) for x in (-half, half) for y in (-half, half) for z in (-half, half)])
    turned = []
    for i in range(_YAWS):
        yaw = (i + 0.5) * math.pi / 2.0 / _YAWS
        c, s = math.cos(yaw), math.sin(yaw)
        turned.append(corners @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]))
    return np.array(turned)
