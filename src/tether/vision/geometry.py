"""Shapes of the eyes' outputs, and from maps of centres to boxes. NumPy only: this runs on the robot."""

from __future__ import annotations

import numpy as np

from tether.contracts import F32

WIDTH, HEIGHT = 128, 96
"""Pixels of the picture that the network sees."""
STRIDE = 4
"""Pixels of the network's picture per cell of the detector's map."""
TOKENS, TOKEN_DIM = 48, 64
_NEIGHBOURS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


def decode(confidence: F32, box: F32, confidence_min: float, candidates_max: int) -> F32:
    """Boxes of one picture: (N, 5) float32 x1, y1, x2, y2, confidence; best first, before suppression.

    confidence: (rows, columns), 0 to 1; box: (4, rows, columns), offset of the centre from the cell's centre and
    size. Coordinates are the network's picture's, from its upper left corner. A cell counts where none of its
    neighbours is more confident; its box is the mean of its own and its neighbours', each weighed by its confidence,
    which halves the noise of one cell's.
    """
    rows, columns = confidence.shape
    around = np.full((rows + 2, columns + 2), -1.0, np.float32)
    around[1:-1, 1:-1] = confidence
    highest = np.max([around[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns] for dy, dx in _NEIGHBOURS], axis=0)
    peaks = np.flatnonzero((confidence >= highest) & (confidence >= confidence_min))
    peaks = peaks[np.argsort(-confidence.ravel()[peaks], kind="stable")][:candidates_max]
    found = np.zeros((len(peaks), 5), np.float32)
    for i, peak in enumerate(peaks):
        row, column = divmod(int(peak), columns)
        top, bottom = max(row - 1, 0), min(row + 2, rows)
        left, right = max(column - 1, 0), min(column + 2, columns)
        near = confidence[top:bottom, left:right]
        weight = np.where(near >= 0.5 * confidence[row, column], near, 0.0).astype(np.float32)
        weight /= weight.sum()
        part = box[:, top:bottom, left:right]
        x = ((np.arange(left, right, dtype=np.float32) + 0.5) * STRIDE + part[0]) * weight
        y = ((np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5) * STRIDE + part[1]) * weight
        cx, cy = float(x.sum()), float(y.sum())
        width, height = (max(float((part[k] * weight).sum()), 0.0) for k in (2, 3))
        found[i] = (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2, confidence[row, column])
    return found


def suppress(boxes: F32, iou_max: float) -> F32:
    """Non-maximum suppression: of boxes that overlap by more than `iou_max` the more confident one; best first in."""
    kept: list[int] = []
    for i in range(len(boxes)):
        if all(float(iou(boxes[i], boxes[k])) <= iou_max for k in kept):
            kept.append(i)
    return boxes[kept]


def iou(a: F32, b: F32) -> F32:
    """Intersection over union of boxes (..., 4 or more), broadcast; 0 where both are empty."""
    width = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    height = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    shared = np.clip(width, 0.0, None) * np.clip(height, 0.0, None)
    areas = [(c[..., 2] - c[..., 0]) * (c[..., 3] - c[..., 1]) for c in (a, b)]
    union = areas[0] + areas[1] - shared
    ratio: F32 = np.asarray(shared / np.maximum(union, 1e-9), dtype=np.float32)
    return ratio
