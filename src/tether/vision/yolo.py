"""Runs a YOLO detector that was exported to ONNX. Nothing of Ultralytics is needed, or in here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tether.contracts import F32, U8, CameraModel
from tether.errors import Fault, InvalidInputError
from tether.ingest.asking import LookHow
from tether.ingest.detector import Detector
from tether.ingest.encoder import PictureEncoder, Seen, tuned_detector, width_of
from tether.models.manifest import MANIFEST_FILE, DType, Manifest, TensorSpec, read_manifest
from tether.models.session import Expectation, Session, SessionConfig, open_model
from tether.vision.eyes import EyesConfig, in_pixels_of
from tether.vision.geometry import HEIGHT, WIDTH, suppress
from tether.vision.resize import area_resize

KIND = "yolo"
_CELLS = sum((HEIGHT // stride) * (WIDTH // stride) for stride in (8, 16, 32))
PICTURES = TensorSpec("images", (1, 3, HEIGHT, WIDTH), DType.FLOAT32, "RGB, 0 to 1, resized by area")
OUTPUT = TensorSpec("output0", (1, 5, _CELLS), DType.FLOAT32, "px: centre x, y, width, height; then confidence")
YOLO = Expectation(KIND, (PICTURES,), (OUTPUT,))


class YoloDetector:
    """A `tether.ingest.detector.Detector` on a model of kind `yolo`."""

    def __init__(self, session: Session, config: EyesConfig | None = None) -> None:
        self.session = session
        self.config = config or EyesConfig()

    @staticmethod
    def load(folder: Path, config: EyesConfig | None = None) -> YoloDetector:
        """The detector in `folder`; raises ModelRefusedError where it does not fit."""
        config = config or EyesConfig()
        return YoloDetector(open_model(folder, YOLO, SessionConfig(config.threads)), config)

    @property
    def width_px(self) -> int:
        """See `tether.ingest.encoder.PictureEncoder`: the network's own."""
        return WIDTH

    def tuned(self, how: LookHow) -> YoloDetector:
        """See `tether.ingest.encoder.PictureEncoder`."""
        return YoloDetector(self.session, self.config.tuned(how))

    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        """See `Detector`."""
        height, width = rgb.shape[:2]
        found = self.boxes(area_resize(height, width, HEIGHT, WIDTH)(rgb))
        found[:, :4] = in_pixels_of(found[:, :4], width, height)
        return found

    def boxes(self, small: U8) -> F32:
        """(N, 6) boxes in a picture that already has the network's size, in its pixels from its upper left corner."""
        picture = np.ascontiguousarray(small.transpose(2, 0, 1)[None], dtype=np.float32) / np.float32(255.0)
        rows = self.session.run({PICTURES.name: picture})[OUTPUT.name][0].T
        rows = rows[rows[:, 4] >= self.config.confidence]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")][: 8 * self.config.detections_max]
        half = 0.5 * rows[:, 2:4]
        corners = np.concatenate([rows[:, :2] - half, rows[:, :2] + half, rows[:, 4:5]], axis=1)
        kept = suppress(corners, self.config.iou)[: self.config.detections_max]
        found = np.zeros((len(kept), 6), np.float32)
        found[:, :5] = kept
        return found


def yolo_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`; raises InvalidInputError with the command that trains one where there is none."""
    if not (folder / MANIFEST_FILE).exists():
        fault = Fault(str(folder), "no model", "an exported YOLO detector: none is shipped, Ultralytics is AGPL-3.0")
        fix = f"pip install 'tether-robotics[detect]', then: tether train detector --kind yolo --models {folder}"
        raise InvalidInputError("yolo", [fault], fix)
    return read_manifest(folder)


def open_yolo(folder: Path) -> YoloDetector:
    """The detector in `folder`; raises as `yolo_manifest`, and ModelRefusedError where it does not fit."""
    yolo_manifest(folder)
    return YoloDetector.load(folder)


class DetectorBesideEyes:
    """Boxes of a detector, tokens of eyes: what a student that was trained with tokens needs."""

    def __init__(self, detector: Detector, eyes: PictureEncoder) -> None:
        self._detector, self._eyes = detector, eyes

    @property
    def width_px(self) -> int | None:
        """See `PictureEncoder`: the detector's."""
        return width_of(self._detector)

    def tuned(self, how: LookHow) -> DetectorBesideEyes:
        """See `PictureEncoder`; tokens have no thresholds."""
        return DetectorBesideEyes(tuned_detector(self._detector, how), self._eyes)

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """See `PictureEncoder`."""
        return Seen(self._detector.detect(rgb, camera), self._eyes.look(rgb, camera).tokens)
