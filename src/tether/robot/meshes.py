"""Mesh files: whether they can be what they say, and how large they are. Reads STL and OBJ, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
_LFS_POINTER = b"version https://git-lfs"
_MAX_READ_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class MeshFile:
    """What a mesh file holds. corners: (2, 3) least and greatest coordinates, file's units; None if not known.

    complaint: why it cannot be a mesh, or None.
    """

    corners: F64 | None
    complaint: str | None = None


def read_mesh(path: Path) -> MeshFile:
    """Look into a mesh file. Other formats than STL and OBJ, and files above 64 MiB, are hardly looked at."""
    try:
        size = path.stat().st_size
        if size == 0:
            return MeshFile(None, "is empty (0 bytes)")
        with path.open("rb") as stream:
            data = stream.read(_MAX_READ_BYTES)
    except OSError as failure:
        return MeshFile(None, f"cannot be read: {failure.strerror}")
    if data.startswith(_LFS_POINTER):
        return MeshFile(None, "is a Git LFS pointer, not the mesh (git lfs pull fetches it)")
    if size > _MAX_READ_BYTES:
        return MeshFile(None)
    suffix = path.suffix.lower()
    if suffix == ".stl":
        return _stl(data)
    if suffix == ".obj":
        return _corners([line.split()[1:4] for line in data.splitlines() if line.startswith(b"v ")])
    return MeshFile(None)


def _stl(data: bytes) -> MeshFile:
    """Read an STL; binary if its length fits its count (some binary files begin with `solid` too)."""
    if len(data) >= 84:
        count = int.from_bytes(data[80:84], "little")
        if len(data) == 84 + 50 * count and count > 0:
            layout = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
            points = np.frombuffer(data, layout, count, 84)["corners"].reshape(-1, 3).astype(np.float64)
            return _extent(points)
    words = [line.split()[1:4] for line in data.splitlines() if line.lstrip().startswith(b"vertex")]
    if not words:
        return MeshFile(None, "is no STL: its length does not fit its count of triangles, and it has no vertex")
    return _corners(words)


def _corners(words: list[list[bytes]]) -> MeshFile:
    if not words:
        return MeshFile(None, "holds no vertex")
    try:
        return _extent(np.array(words, dtype=np.float64))
    except ValueError:
        return MeshFile(None, "holds a vertex that is not three numbers")


def _extent(points: F64) -> MeshFile:
    if not np.isfinite(points).all():
        return MeshFile(None, "holds a vertex that is not finite")
    return MeshFile(np.stack([points.min(axis=0), points.max(axis=0)]))
