"""The printed chessboard: how it is drawn to scale, and where its inner corners are in a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from tether.config import bounded
from tether.contracts import F64, U8
from tether.errors import Fault, InvalidInputError

cv: Any = cv2


@dataclass(frozen=True)
class Board:
    """Inner corners along x and y, of which one is even and the other odd, so that it cannot be taken upside down.

    Its frame: origin in the inner corner beside the black corner square, x along the columns, y along the rows, z into
    the paper, away from who looks at it.
    """

    columns: int = bounded(3, 40, default=8)
    rows: int = bounded(3, 40, default=5)
    square_m: float = bounded(0.002, 0.2, unit="m", default=0.012)

    def __post_init__(self) -> None:
        if (self.columns + self.rows) % 2 == 0 or self.columns <= self.rows:
            found = f"{self.columns} and {self.rows}"
            expected = "more columns than rows, one of them even and the other odd"
            raise InvalidInputError("board", [Fault("columns, rows", found, expected)])

    def points(self) -> F64:
        """(columns · rows, 3) inner corners in the board's frame, m, row by row."""
        grid = np.mgrid[0 : self.columns, 0 : self.rows].T.reshape(-1, 2)
        return np.column_stack([grid, np.zeros(len(grid))]) * self.square_m

    def svg(self) -> str:
        """To print at 100 %: squares in millimetres, black from the corner of the origin on."""
        side, nx, ny = 1000.0 * self.square_m, self.columns + 1, self.rows + 1
        width, height = (nx + 2) * side, (ny + 2) * side
        squares = [
            f'<rect x="{(i + 1) * side:g}" y="{(j + 1) * side:g}" width="{side:g}" height="{side:g}"/>'
            for j in range(ny)
            for i in range(nx)
            if (i + j) % 2 == 0
        ]
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}mm" height="{height:g}mm" '
        paper = '<rect width="100%" height="100%" fill="white"/>'
        return head + f'viewBox="0 0 {width:g} {height:g}">{paper}{"".join(squares)}</svg>\n'

    def texture(self, pixels: int) -> U8:
        """The board with a white margin of one square, `pixels` a square, grey."""
        j, i = np.mgrid[0 : self.rows + 3, 0 : self.columns + 3]
        inside = (i > 0) & (j > 0) & (i <= self.columns + 1) & (j <= self.rows + 1)
        cells = np.where(inside & ((i + j) % 2 == 0), 20, 235).astype(np.uint8)
        return np.kron(cells, np.ones((pixels, pixels), np.uint8))


def find(rgb: U8, board: Board) -> F64 | None:
    """(columns · rows, 2) pixels of the inner corners in the order of `Board.points`; None where not all are seen."""
    grey = cv.cvtColor(rgb, cv.COLOR_RGB2GRAY)
    found, corners = cv.findChessboardCornersSB(grey, (board.columns, board.rows), flags=cv.CALIB_CB_NORMALIZE_IMAGE)
    if not found or corners is None:
        return None
    points = corners.reshape(board.rows, board.columns, 2).astype(np.float64)
    (ax, ay), (bx, by) = (points[0, -1] - points[0, 0]).tolist(), (points[-1, 0] - points[0, 0]).tolist()
    if ax * by - ay * bx < 0.0:
        points = points[:, ::-1]
    if _darkness(grey, points) < _darkness(grey, points[::-1, ::-1]):
        points = points[::-1, ::-1]
    return np.ascontiguousarray(points.reshape(-1, 2))


def _darkness(grey: U8, points: F64) -> float:
    """How dark the square outside the first corner is."""
    middle = points[0, 0] - 0.5 * (points[0, 1] - points[0, 0]) - 0.5 * (points[1, 0] - points[0, 0])
    x, y = np.clip(np.rint(middle).astype(int), 0, np.array(grey.shape[::-1]) - 1).tolist()
    return 255.0 - float(grey[y, x])
