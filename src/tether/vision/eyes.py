"""Eyes at run time: a picture of any size in, boxes in its pixels and tokens out. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tether.config import bounded
from tether.contracts import F32, U8, CameraModel
from tether.ingest.asking import LookHow
from tether.ingest.encoder import Seen
from tether.models.session import Session, SessionConfig, open_model
from tether.vision.contract import BOX_OUT, CONFIDENCE_OUT, EYES, PICTURE, TOKENS_OUT
from tether.vision.geometry import HEIGHT, WIDTH, decode, suppress
from tether.vision.resize import area_resize


@dataclass(frozen=True)
class EyesConfig:
    """How hard eyes or a detector look; bounds as those of the primitive `look` in config/skills.yaml."""

    confidence: float = bounded(0.05, 0.95, default=0.3, doc="least confidence of a detection")
    iou: float = bounded(0.1, 0.9, default=0.5, doc="overlap from which two boxes are one object")
    detections_max: int = bounded(1, 64, default=8)
    threads: int = bounded(1, 64, default=1)

    def tuned(self, how: LookHow) -> EyesConfig:
        """The same with the thresholds that are asked for."""
        return replace(
            self,
            confidence=self.confidence if how.confidence is None else how.confidence,
            iou=self.iou if how.iou is None else how.iou,
        )


class LearnedEyes:
    """A `tether.ingest.encoder.PictureEncoder` on a model of kind `eyes`."""

    def __init__(self, session: Session, config: EyesConfig | None = None) -> None:
        self.session = session
        self.config = config or EyesConfig()

    @staticmethod
    def load(folder: Path, config: EyesConfig | None = None) -> LearnedEyes:
        """Eyes from the model in `folder`; raises ModelRefusedError where it does not fit."""
        config = config or EyesConfig()
        return LearnedEyes(open_model(folder, EYES, SessionConfig(config.threads)), config)

    def sessions(self) -> tuple[Session, ...]:
        """See `tether.models.running.RunsModels`."""
        return (self.session,)

    @property
    def width_px(self) -> int:
        """See `PictureEncoder`: the network's own."""
        return WIDTH

    def tuned(self, how: LookHow) -> LearnedEyes:
        """See `PictureEncoder`."""
        return LearnedEyes(self.session, self.config.tuned(how))

    def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
        """See `PictureEncoder`; the same picture gives the same bits."""
        height, width = rgb.shape[:2]
        small = area_resize(height, width, HEIGHT, WIDTH)(rgb)
        out = self.session.run({PICTURE.name: small[None]})
        config = self.config
        boxes = decode(out[CONFIDENCE_OUT.name][0], out[BOX_OUT.name][0], config.confidence, 4 * config.detections_max)
        kept = suppress(boxes, config.iou)[: config.detections_max]
        detections = np.zeros((len(kept), 6), np.float32)
        detections[:, :5] = kept
        detections[:, :4] = in_pixels_of(kept[:, :4], width, height)
        return Seen(detections, out[TOKENS_OUT.name][0])


def in_pixels_of(boxes: F32, width: int, height: int) -> F32:
    """Boxes (N, 4) of the network's picture as pixels of one of width x height, cut at its border.

    The network's count from the upper left corner; a picture's pixel (u, v) covers [u - 0.5, u + 0.5].
    """
    scale = np.array([width / WIDTH, height / HEIGHT] * 2, np.float32)
    high = np.array([width - 0.5, height - 0.5] * 2, np.float32)
    pixels: F32 = np.clip(boxes * scale - np.float32(0.5), np.float32(-0.5), high)
    return pixels
