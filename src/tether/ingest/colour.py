"""Colour conversion on whole planes: packed YUV 4:2:2 and Bayer mosaics to RGB."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.contracts import U8


def yuv422_to_rgb(pairs: U8, first_luma: int) -> U8:
    """Packed 4:2:2 to RGB. pairs: (H, W, 2) uint8; first_luma: 0 for Y U Y V, 1 for U Y V Y. Returns (H, W,
    3).

    BT.601 in video range (Y 16…235), which is what UVC cameras send and what OpenCV's COLOR_YUV2RGB_* assume.
    Fixed point with 14 fractional bits, exact to ±1 of the real-valued matrix.
    """
    height, width, _ = pairs.shape
    quads = pairs.reshape(height, width // 2, 4)
    luma = (pairs[:, :, first_luma].astype(np.int32) - 16) * 19077
    u = quads[:, :, 1 - first_luma].astype(np.int32) - 128
    v = quads[:, :, 3 - first_luma].astype(np.int32) - 128
    rgb = np.empty((height, width, 3), dtype=np.uint8)
    rounding = 1 << 13
    chroma = (26149 * v + rounding, -6419 * u - 13320 * v + rounding, 33050 * u + rounding)
    pairs_of_luma = luma.reshape(height, width // 2, 2)
    for channel, shift in enumerate(chroma):
        value = (pairs_of_luma + shift[:, :, None]) >> 14
        rgb[:, :, channel] = np.clip(value, 0, 255).reshape(height, width)
    return rgb


def bayer_to_rgb(mosaic: U8, pattern: str) -> U8:
    """Bilinear demosaicing. mosaic: (H, W) uint8, H and W ≥ 2; pattern: rggb, bggr, gbrg or grbg, the colours
    of the top left 2x2 cell in reading order. Returns (H, W, 3) uint8, rounded to nearest; edges are
    mirrored.
    """
    padded = np.pad(mosaic, 1, mode="reflect").astype(np.uint16)
    centre = mosaic.astype(np.uint16)
    left_right = padded[1:-1, :-2] + padded[1:-1, 2:]
    up_down = padded[:-2, 1:-1] + padded[2:, 1:-1]
    diagonal = (padded[:-2, :-2] + padded[:-2, 2:] + padded[2:, :-2] + padded[2:, 2:] + 2) >> 2
    cross = (left_right + up_down + 2) >> 2
    rgb = np.empty((*mosaic.shape, 3), dtype=np.uint8)
    red, blue = divmod(pattern.index("r"), 2), divmod(pattern.index("b"), 2)
    for channel, (row, column) in ((0, red), (2, blue)):
        _fill(rgb[:, :, channel], row, column, centre, (left_right + 1) >> 1, (up_down + 1) >> 1, diagonal)
    green = rgb[:, :, 1]
    green[...] = centre
    for row, column in (red, blue):
        green[row::2, column::2] = cross[row::2, column::2]
    return rgb


def _fill(
    out: U8,
    row: int,
    column: int,
    centre: NDArray[np.integer],
    horizontal: NDArray[np.integer],
    vertical: NDArray[np.integer],
    diagonal: NDArray[np.integer],
) -> None:
    """One of red and blue: known at (row, column) of each cell, elsewhere a mean of its neighbours."""
    out[row::2, column::2] = centre[row::2, column::2]
    out[row::2, 1 - column :: 2] = horizontal[row::2, 1 - column :: 2]
    out[1 - row :: 2, column::2] = vertical[1 - row :: 2, column::2]
    out[1 - row :: 2, 1 - column :: 2] = diagonal[1 - row :: 2, 1 - column :: 2]
