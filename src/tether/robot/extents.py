"""How large a link is: the reach of its shapes, as far as they are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.robot.raw import RawLink, RawShape, ShapeType

F64 = NDArray[np.float64]
MeshCorners = Mapping[str, F64]
"""Mesh filename as written in the description → (2, 3) least and greatest coordinates in the file's units."""


@dataclass(frozen=True, eq=False)
class Extent:
    """Corners (n, 3) of boxes around a link's shapes, in the link's frame. complete: no shape is left out."""

    corners: F64
    complete: bool

    def reach_from(self, point: F64) -> float:
        """Return the distance from a point to the farthest corner, m; 0 where there is no corner."""
        return float(np.linalg.norm(self.corners - point, axis=1).max()) if len(self.corners) else 0.0


def link_extent(link: RawLink, meshes: MeshCorners) -> Extent:
    """Return the extent of all visual and collision shapes of a link."""
    boxes = [shape_corners(shape, meshes) for shape in link.shapes]
    known = [box for box in boxes if box is not None]
    return Extent(np.concatenate(known) if known else np.zeros((0, 3)), bool(known) and len(known) == len(boxes))


def shape_corners(shape: RawShape, meshes: MeshCorners) -> F64 | None:
    """Return the (8, 3) corners of the box around a shape, in the link's frame; None if not known."""
    half = half_size(shape, meshes)
    if half is None:
        return None
    centre, lengths = half
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    pose = shape.origin.pose()
    corners: F64 = (centre + signs * lengths) @ pose[:3, :3].T + pose[:3, 3]
    return corners


def half_size(shape: RawShape, meshes: MeshCorners) -> tuple[F64, F64] | None:
    """Return centre and half lengths (3,) of a shape in its own frame, m."""
    if shape.type is None or shape.numbers is None:
        return None
    centre = np.zeros(3)
    if shape.type is ShapeType.MESH:
        corners = meshes.get(shape.filename or "")
        if corners is None:
            return None
        scaled = corners * np.array(shape.numbers)
        return scaled.mean(axis=0), np.abs(scaled[1] - scaled[0]) / 2.0
    if shape.type is ShapeType.BOX:
        return centre, np.abs(np.array(shape.numbers)) / 2.0
    radius = abs(shape.numbers[0])
    if shape.type is ShapeType.SPHERE:
        return centre, np.full(3, radius)
    cap = radius if shape.type is ShapeType.CAPSULE else 0.0
    return centre, np.array([radius, radius, abs(shape.numbers[1]) / 2.0 + cap])


def volume_m3(shape: RawShape) -> float | None:
    """Return the volume of a primitive shape, m³; None for meshes and unread shapes."""
    if shape.numbers is None or shape.type in (None, ShapeType.MESH):
        return None
    if shape.type is ShapeType.BOX:
        return math.prod(shape.numbers)
    radius = shape.numbers[0]
    ball = 4.0 / 3.0 * math.pi * radius**3
    if shape.type is ShapeType.SPHERE:
        return ball
    tube = math.pi * radius**2 * shape.numbers[1]
    return tube + ball if shape.type is ShapeType.CAPSULE else tube
