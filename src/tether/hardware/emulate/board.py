"""A printed board in the emulated camera's pictures: held before it by a hand, or in the gripper.

It is drawn over what MuJoCo has rendered, by the same pinhole; nothing stands before it, and light does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tether.calibrate.board import Board, cv
from tether.contracts import F64, U8
from tether.rotations import rotvec_to_matrix

_FINE = 2
"""Subpixels of a pixel, in each direction."""
_TEXTURE_PX = 16
_PAUSE_NS, _GO_NS = 400_000_000, 200_000_000
Pose = tuple[F64, F64]
"""p (3,) and rotation (3, 3) of one frame in another."""


def after(a: Pose, b: Pose) -> Pose:
    """The pose of c in a's frame, of b in a's and of c in b's."""
    return a[0] + a[1] @ b[0], a[1] @ b[1]


def inverse(a: Pose) -> Pose:
    """The pose of the one frame in the other, turned round."""
    return -a[1].T @ a[0], a[1].T


@dataclass(eq=False)
class BoardInView:
    """k: (3, 3) of the camera. in_tool: where the gripper holds the board; None: a hand does, and moves it about."""

    board: Board
    k: F64
    in_tool: Pose | None
    noise: float = 4.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self._texture = self.board.texture(_TEXTURE_PX)
        self._whole = np.full(self._texture.shape, 255, np.uint8)
        a = 1.0 / _TEXTURE_PX * self.board.square_m
        # Middle of a texture's pixel → m on the board: the margin and the first square lie before the origin.
        shift = (0.5 / _TEXTURE_PX - 2.0) * self.board.square_m
        self._to_board = np.array([[a, 0.0, shift], [0.0, a, shift], [0.0, 0.0, 1.0]])

    def drawn(self, picture: U8, stamp_ns: int, camera: Pose, tool: Pose) -> U8:
        """The picture with the board in it; camera, tool: their poses in the world when it was taken."""
        held = self.in_tool
        p, rotation = self._hand(stamp_ns) if held is None else after(inverse(camera), after(tool, held))
        if p[2] < 0.03 or float(rotation[:, 2] @ p) <= 0.0:
            return picture  # behind the camera, or seen from behind
        height, width = picture.shape[:2]
        fine = np.array([[_FINE, 0.0, 0.5 * _FINE - 0.5], [0.0, _FINE, 0.5 * _FINE - 0.5], [0.0, 0.0, 1.0]])
        h = fine @ self.k @ np.column_stack([rotation[:, 0], rotation[:, 1], p]) @ self._to_board
        size, area = (width * _FINE, height * _FINE), (width, height)
        grey = cv.resize(cv.warpPerspective(self._texture, h, size), area, interpolation=cv.INTER_AREA)
        cover = cv.resize(cv.warpPerspective(self._whole, h, size), area, interpolation=cv.INTER_AREA)
        rows, columns = np.nonzero(cover)
        if not len(rows):
            return picture
        box = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        share = cover[box].astype(np.float32)[..., None] / 255.0
        shape = (*share.shape[:2], picture.shape[2])
        drawn = grey[box].astype(np.float32)[..., None] + share * self.noise * self.rng.standard_normal(
            shape, np.float32
        )
        result: U8 = picture.copy()
        result[box] = np.clip(result[box] * (1.0 - share) + drawn, 0, 255).astype(np.uint8)
        return result

    def _hand(self, stamp_ns: int) -> Pose:
        """A hand that holds the board still for 0.4 s, then takes it elsewhere."""
        i, t_ns = divmod(stamp_ns, _PAUSE_NS + _GO_NS)
        share = max(0.0, (t_ns - _PAUSE_NS) / _GO_NS)
        (p, turn), (q, to) = self._held(i), self._held(i + 1)
        return p + share * (q - p), rotvec_to_matrix(turn + share * (to - turn))

    def _held(self, i: int) -> Pose:
        rng = np.random.default_rng(1000 + i)
        z = rng.uniform(0.16, 0.32)
        centre = np.array([rng.uniform(-0.35, 0.35) * z, rng.uniform(-0.25, 0.25) * z, z])
        turn = rng.uniform(-0.7, 0.7, 3) * np.array([1.0, 1.0, 0.5])
        middle = 0.5 * self.board.square_m * np.array([self.board.columns - 1, self.board.rows - 1, 0.0])
        return centre - rotvec_to_matrix(turn) @ middle, turn
