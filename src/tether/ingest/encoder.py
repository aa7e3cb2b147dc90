"""What camera ingest makes of a picture: boxes, and tokens where a learned encoder is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tether.contracts import F32, U8, CameraModel
from tether.ingest.detector import Detector


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen in one picture. detections: see `Detector.detect`. tokens: (T, D) float32, or None."""

    detections: F32
    tokens: F32 | None


class PictureEncoder(Protocol):
    """Looks at a picture. Deterministic in its arguments."""

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """What is in `rgb` (H, W, 3) uint8; camera: its intrinsics, None while unknown."""


class DetectorEncoder:
    """A detector alone: boxes and no tokens."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """See `PictureEncoder`."""
        return Seen(self._detector.detect(rgb, camera), None)
