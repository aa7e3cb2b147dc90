"""What camera ingest makes of a picture: boxes, and tokens where a learned encoder is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tether.contracts import F32, U8, CameraModel
from tether.ingest.asking import LookHow
from tether.ingest.detector import Detector


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen in one picture. detections: see `Detector.detect`. tokens: (T, D) float32, or None."""

    detections: F32
    tokens: F32 | None


class PictureEncoder(Protocol):
    """Looks at a picture. Deterministic in its arguments."""

    @property
    def width_px(self) -> int | None:
        """The one width that pictures are shrunk to before they are looked at; None where it can be any."""

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """What is in `rgb` (H, W, 3) uint8; camera: its intrinsics, None while unknown."""

    def tuned(self, how: LookHow) -> PictureEncoder:
        """The same eyes, looking so hard; `how.image_size` is None or fits `width_px`."""


@runtime_checkable
class TunableDetector(Detector, Protocol):
    """A detector with thresholds and a width of its own; see `PictureEncoder`."""

    @property
    def width_px(self) -> int | None:
        """See `PictureEncoder`."""

    def tuned(self, how: LookHow) -> TunableDetector:
        """See `PictureEncoder`."""


class DetectorEncoder:
    """A detector alone: boxes and no tokens."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    @property
    def width_px(self) -> int | None:
        """See `PictureEncoder`."""
        return width_of(self._detector)

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """See `PictureEncoder`."""
        return Seen(self._detector.detect(rgb, camera), None)

    def tuned(self, how: LookHow) -> DetectorEncoder:
        """See `PictureEncoder`."""
        return DetectorEncoder(tuned_detector(self._detector, how))


def width_of(detector: Detector) -> int | None:
    """See `PictureEncoder.width_px`."""
    return detector.width_px if isinstance(detector, TunableDetector) else None


def tuned_detector(detector: Detector, how: LookHow) -> Detector:
    """A detector that looks so hard."""
    if isinstance(detector, TunableDetector):
        return detector.tuned(how)
    from tether.ingest.tuned import TunedDetector  # SciPy's sparse matrices, for those who are asked to shrink only

    return TunedDetector(detector, how)
