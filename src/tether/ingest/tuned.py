"""A detector that knows no thresholds of its own, made to look as hard as a decision asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether.contracts import F32, U8, CameraModel
from tether.ingest.asking import LookHow
from tether.ingest.detector import Detector
from tether.vision.geometry import suppress
from tether.vision.resize import area_resize


class TunedDetector:
    """A `Detector`: another's boxes in a picture that was shrunk, those that pass the thresholds."""

    def __init__(self, detector: Detector, how: LookHow) -> None:
        self._detector, self._how = detector, how

    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        """See `Detector`; in pixels of the picture as it was given."""
        width = self._how.image_size
        if width is None or width >= rgb.shape[1]:
            return self._passing(self._detector.detect(rgb, camera))
        small, scale = _shrunk(rgb, width)
        found = self._detector.detect(small, None if camera is None else _scaled(camera, small, scale)).copy()
        # pixel (u, v) covers [u - 0.5, u + 0.5]: edges scale about the corner, which lies at (-0.5, -0.5)
        found[:, :4] = (found[:, :4] + np.float32(0.5)) * np.array([*scale, *scale], np.float32) - np.float32(0.5)
        return self._passing(found)

    def _passing(self, found: F32) -> F32:
        how = self._how
        if how.confidence is not None:
            found = found[found[:, 4] >= how.confidence]
        return found if how.iou is None else suppress(found, how.iou)


def _shrunk(rgb: U8, width: int) -> tuple[U8, tuple[float, float]]:
    """The picture at that width, its shape kept, and how many of its pixels are one of the result: across, down."""
    full_height, full_width = rgb.shape[:2]
    height = max(round(full_height * width / full_width), 1)
    return area_resize(full_height, full_width, height, width)(rgb), (full_width / width, full_height / height)


def _scaled(camera: CameraModel, small: U8, scale: tuple[float, float]) -> CameraModel:
    across, down = scale
    k = camera.k.copy()
    k[0] /= across
    k[1] /= down
    k[0, 2] += 0.5 / across - 0.5
    k[1, 2] += 0.5 / down - 0.5
    return replace(camera, width=small.shape[1], height=small.shape[0], k=k)
