"""Where in a picture the object is: the detector's interface, and one that goes by colour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tether.config import bounded
from tether.contracts import F32, F64, U8, CameraModel
from tether.errors import Fault, InvalidInputError


class Detector(Protocol):
    """Finds objects in a picture. Deterministic in its arguments."""

    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        """Boxes in `rgb` (H, W, 3): (N, 6) float32 rows x1, y1, x2, y2, confidence (0 to 1), class; best
        first.

        Pixel (u, v) covers [u - 0.5, u + 0.5] x [v - 0.5, v + 0.5], as the intrinsics in `camera` have it.
        """


@dataclass(frozen=True)
class ColourConfig:
    """What the object looks like. Colours are linear RGB, 0 to 1; only their ratios count."""

    red: float = bounded(0.0, 1.0, default=0.80)
    green: float = bounded(0.0, 1.0, default=0.10)
    blue: float = bounded(0.0, 1.0, default=0.10)
    chroma_tolerance: float = bounded(
        0.02, 0.6, default=0.22, doc="distance in (r, g, b) / (r + g + b) up to which a pixel is the object's"
    )
    min_brightness: int = bounded(
        1, 600, unit="counts", default=36, doc="r + g + b below which the noise of a pixel drowns its colour"
    )
    min_area_px: int = bounded(1, 1_000_000, unit="px", default=12)
    max_detections: int = bounded(1, 1000, default=16)
    class_id: int = bounded(0, 10_000, default=0)

    def __post_init__(self) -> None:
        if max(self.colour) - min(self.colour) < 0.1:
            fault = Fault("red, green, blue", f"{self.colour}", "channels that differ by 0.1 or more")
            raise InvalidInputError("colour detector", [fault], "a grey object cannot be told from its surroundings")

    @cached_property
    def colour(self) -> tuple[float, float, float]:
        """The object's colour as a triple."""
        return (self.red, self.green, self.blue)


class ColourDetector:
    """Connected regions of one colour, with edges to a fraction of a pixel.

    Light changes the brightness of a surface far more than the ratio of its channels, so pixels are
    classified by chromaticity, through a table over 6 bits a channel. A pixel on the object's edge mixes
    object and background; its share of object is read from the amount of colour it has against the neighbours
    inside, which is linear in the share where the background is grey.
    """

    _SHIFT = 2
    _BITS = 6

    def __init__(self, config: ColourConfig | None = None) -> None:
        from scipy import ndimage  # half a second of import, which stages without a detector need not pay

        self._ndimage = ndimage
        self.config = config or ColourConfig()
        target = np.array(self.config.colour)
        axis = target - target.mean()
        self._axis: F64 = axis / float(axis @ axis)
        self._table = _similarity_table(self.config, self._BITS, self._SHIFT)

    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        """See `Detector`. confidence: mean likeness of colour, lowered where little of the box is filled."""
        key = rgb >> self._SHIFT
        index = key[:, :, 0].astype(np.intp)
        for channel in (1, 2):
            index <<= self._BITS
            index |= key[:, :, channel]
        similarity = self._table[index]
        mask = similarity > 0
        rows, columns = (_span(np.asarray(mask.any(axis=axis))) for axis in (1, 0))
        if rows is None or columns is None:
            return np.zeros((0, 6), dtype=np.float32)
        labels, n = self._ndimage.label(mask[rows, columns])
        boxes = []
        for label, where in enumerate(self._ndimage.find_objects(labels, n), start=1):
            region = labels[where] == label
            area = int(np.count_nonzero(region))
            if area < self.config.min_area_px:
                continue
            top, left = rows.start + where[0].start, columns.start + where[1].start
            likeness = float(similarity[top : top + region.shape[0], left : left + region.shape[1]][region].mean())
            box = self._edges(rgb, region, top, left)
            boxes.append((area, (*box, self._confidence(likeness, area, region.size), self.config.class_id)))
        boxes.sort(key=lambda item: -item[0])
        found = [box for _, box in boxes[: self.config.max_detections]]
        return np.array(found, dtype=np.float32).reshape(-1, 6)

    @staticmethod
    def _confidence(likeness: float, area: int, box_area: int) -> float:
        # A cube seen from anywhere fills at least half of its box; speckle along a line does not.
        return likeness / 255.0 * min(1.0, 2.0 * area / box_area)

    def _edges(self, rgb: U8, region: NDArray[np.bool_], top: int, left: int) -> tuple[float, float, float, float]:
        """x1, y1, x2, y2 of one region, from the shares of object in the pixels around its border."""
        height, width = rgb.shape[:2]
        margin = 2
        y0, x0 = max(top - margin, 0), max(left - margin, 0)
        y1, x1 = min(top + region.shape[0] + margin, height), min(left + region.shape[1] + margin, width)
        colour = np.maximum(rgb[y0:y1, x0:x1] @ self._axis, 0.0)
        own = np.zeros(colour.shape, dtype=bool)
        own[top - y0 : top - y0 + region.shape[0], left - x0 : left - x0 + region.shape[1]] = region
        near = self._ndimage.binary_dilation(own, iterations=1, structure=np.ones((3, 3), dtype=bool))
        # Full colour next to each pixel, taken among the region's own: faces differ in brightness.
        full = self._ndimage.maximum_filter(np.where(own, colour, 0.0), size=5, mode="constant")
        share = np.where(near & (full > 0.0), np.minimum(colour / np.maximum(full, 1e-9), 1.0), 0.0)
        share[share < _SHARE_OF_NOISE] = 0.0
        across, down = share.max(axis=0), share.max(axis=1)
        return (
            x0 + _first_edge(across),
            y0 + _first_edge(down),
            x0 + len(across) - 1 - _first_edge(across[::-1]),
            y0 + len(down) - 1 - _first_edge(down[::-1]),
        )


_SHARE_OF_NOISE = 0.12
"""Shares below this are pixel noise or light reflected from the object onto the ground."""


def _first_edge(share: F64) -> float:
    """Where the object begins along a profile of shares: pixel i covers [i - 0.5, i + 0.5]."""
    first = int(np.argmax(share >= 0.5))
    before = float(share[first - 1]) if first > 0 else 0.0
    return first + 0.5 - float(share[first]) - before


def _span(occupied: NDArray[np.bool_]) -> slice | None:
    at = np.flatnonzero(occupied)
    return slice(int(at[0]), int(at[-1]) + 1) if at.size else None


def _similarity_table(config: ColourConfig, bits: int, shift: int) -> U8:
    """(2^(3 bits),) likeness to the object's colour, 1 to 255 for its pixels and 0 for others."""
    level = ((np.arange(1 << bits) << shift) + (1 << shift) / 2).astype(np.float32)
    red, green, blue = level[:, None, None], level[None, :, None], level[None, None, :]
    total = red + green + blue
    target = np.array(config.colour) / sum(config.colour)
    distance = np.sqrt(sum((c / total - t) ** 2 for c, t in zip((red, green, blue), target, strict=True)))
    likeness = np.clip(1.0 - 0.5 * distance / config.chroma_tolerance, 0.0, 1.0)
    likeness[(distance > config.chroma_tolerance) | (total < config.min_brightness)] = 0.0
    return np.asarray(np.rint(likeness * 255.0), dtype=np.uint8).ravel()
