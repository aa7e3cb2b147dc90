"""How good a detector is on labelled frames: average precision, where centres are, and what occlusion does to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether.contracts import F32
from tether.vision.frames import VISIBLE_MIN, Frames
from tether.vision.geometry import iou

_RECALLS = np.linspace(0.0, 1.0, 101)
"""COCO's points of the precision-recall curve."""
_OCCLUDED_MAX = 0.75
"""Share of the outline in sight below which a cube counts as occluded."""


@dataclass(frozen=True)
class Scores:
    """map50: COCO's average precision at IoU 0.5, of the one class. centre_error_px: distance of the centres of true
    finds, in pixels of the labels' picture (p50, p95). recall, recall_occluded: share of boxes found at
    `confidence_min`; false_rate: finds without a box a frame, at the same confidence.
    """

    map50: float
    map75: float
    centre_error_px_p50: float
    centre_error_px_p95: float
    size_error_px_p50: float
    recall: float
    recall_occluded: float
    false_rate: float
    frames: int
    boxes: int

    def as_dict(self) -> dict[str, float]:
        """Name → figure; errors of finds are left out where there are none."""
        return {name: float(value) for name, value in vars(self).items() if np.isfinite(value)}


def score(frames: Frames, found: Sequence[F32], confidence_min: float) -> Scores:
    """Scores of `found`, for each frame (N, 5 or more) rows x1, y1, x2, y2, confidence in the frames' own pixels.

    Frames whose cube is neither clearly seen nor clearly hidden are left out.
    """
    shown, hidden = frames.shown, frames.hidden
    rows = np.flatnonzero(shown | hidden).tolist()
    sure = [found[i][found[i][:, 4] >= confidence_min] for i in rows]
    matched, centres, sizes = [], [], []
    for i, boxes in zip(rows, sure, strict=True):
        if not shown[i]:
            continue
        hit = bool(len(boxes)) and float(iou(boxes[0], frames.boxes[i])) >= 0.5
        matched.append((hit, float(frames.visible[i])))
        if hit:
            error = boxes[0, :4] - frames.boxes[i]
            centres.append(float(np.hypot(*(0.5 * (error[:2] + error[2:])))))
            sizes.append(float(np.abs(error[2:] - error[:2]).mean()))
    hits = np.array([hit for hit, _ in matched])
    occluded = np.array([VISIBLE_MIN <= visible < _OCCLUDED_MAX for _, visible in matched])
    extra = sum(len(boxes) for boxes in sure) - int(hits.sum())
    return Scores(
        map50=average_precision(frames, found, rows, 0.5),
        map75=average_precision(frames, found, rows, 0.75),
        centre_error_px_p50=_percentile(centres, 50),
        centre_error_px_p95=_percentile(centres, 95),
        size_error_px_p50=_percentile(sizes, 50),
        recall=float(hits.mean()) if len(hits) else 0.0,
        recall_occluded=float(hits[occluded].mean()) if occluded.any() else 0.0,
        false_rate=extra / max(len(rows), 1),
        frames=len(rows),
        boxes=len(hits),
    )


def average_precision(frames: Frames, found: Sequence[F32], rows: Sequence[int], iou_min: float) -> float:
    """COCO's average precision of one class over the frames `rows`, each with one box or none.

    Precision is made falling and read at 101 recalls; see pycocotools/cocoeval.py of cocodataset/cocoapi.
    """
    shown = frames.shown
    candidates = [(float(box[4]), i, box) for i in rows for box in found[i]]
    candidates.sort(key=lambda item: -item[0])
    taken: set[int] = set()
    correct = np.zeros(len(candidates), bool)
    for k, (_, i, box) in enumerate(candidates):
        if shown[i] and i not in taken and float(iou(box, frames.boxes[i])) >= iou_min:
            taken.add(i)
            correct[k] = True
    boxes = int(shown[rows].sum())
    if boxes == 0 or not len(candidates):
        return 0.0
    hits = np.cumsum(correct)
    precision = hits / np.arange(1, len(candidates) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(hits / boxes, _RECALLS, side="left")
    return float(np.where(at < len(precision), precision[np.minimum(at, len(precision) - 1)], 0.0).mean())


def _percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, share)) if len(values) else float("inf")
