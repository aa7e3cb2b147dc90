"""Training, export and scores of YOLOv8n, from random weights, on one class."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx

from tether.config import bounded
from tether.errors import Fault, InvalidInputError
from tether.models.manifest import Manifest, Normalisation
from tether.models.store import UNSEALED, save_model
from tether.results import header, write_json
from tether.vision.eyes import EyesConfig
from tether.vision.frames import Frames
from tether.vision.geometry import HEIGHT, WIDTH
from tether.vision.metrics import score
from tether.vision.yolo import KIND, PICTURES, YOLO, YoloDetector
from tether_yolo.data import write_dataset

OPSET, IR_VERSION = 18, 10
_SCORED_CONFIDENCE = 0.3


@dataclass(frozen=True)
class YoloTraining:
    """How long and how YOLO is trained."""

    epochs: int = bounded(1, 10_000, default=10)
    batch: int = bounded(1, 1024, default=32)
    seed: int = bounded(0, None, default=0)
    threads: int = bounded(1, 64, default=2)


def train(train_frames: Frames, held_out: Frames, out: Path, models: Path, config: YoloTraining) -> dict[str, float]:
    """Train, or go on from `out`'s last checkpoint; export to `models`; returns the scores on `held_out`."""
    yolo = ultralytics_yolo()
    description = write_dataset(out / "data", train_frames, held_out)
    best = out / "run" / "weights" / "best.pt"
    last = best.with_name("last.pt")
    if not (out / "finished").exists():
        resumed = last.exists()
        model = yolo(str(last)) if resumed else yolo("yolov8n.yaml")
        model.train(**({"resume": True} if resumed else _arguments(description, out, config)))
        (out / "finished").touch()
    exported = _exported(yolo(str(best)))
    draft = _manifest(len(train_frames), config)
    save_model(models, exported, draft)
    detector = YoloDetector.load(models, EyesConfig(confidence=0.05))
    found = [detector.boxes(picture)[:, :5] for picture in held_out.pictures]
    scores = score(held_out, found, _SCORED_CONFIDENCE).as_dict()
    save_model(models, exported, replace(draft, scores=scores))
    write_json(out / "result.json", {**header("train detector", config.seed), "kind": KIND, "held_out": scores})
    return scores


def _arguments(description: Path, out: Path, config: YoloTraining) -> dict[str, Any]:
    """Ultralytics' own settings. amp is off because its self-test downloads weights."""
    return {
        "data": str(description),
        "imgsz": WIDTH,
        "rect": False,
        "epochs": config.epochs,
        "batch": config.batch,
        "seed": config.seed,
        "deterministic": True,
        "project": str(out.resolve()),
        "name": "run",
        "exist_ok": True,
        "pretrained": False,
        "amp": False,
        "plots": False,
        "device": "cpu",
        "workers": 0,
        "single_cls": True,
        "warmup_epochs": 1.0,
        "mosaic": 0.0,  # a scene of four quarters is none that this camera sees
        "verbose": False,
    }


def _exported(model: Any) -> bytes:
    """The ONNX model, for pictures of the eyes' size."""
    path = Path(model.export(format="onnx", imgsz=(HEIGHT, WIDTH), opset=OPSET, simplify=False, dynamic=False))
    made = onnx.load(str(path))
    made.ir_version = IR_VERSION
    del made.metadata_props[:]
    return bytes(made.SerializeToString())


def _manifest(frames: int, config: YoloTraining) -> Manifest:
    return Manifest(
        kind=KIND,
        version="1",
        model_file="yolo.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=YOLO.inputs,
        outputs=YOLO.outputs,
        normalisation=(Normalisation(PICTURES.name, (0.0,), (1.0,)),),
        trained_on={
            "frames": f"{frames} rendered from the MuJoCo world with domain randomisation",
            "epochs": str(config.epochs),
            "licence": "AGPL-3.0, as Ultralytics claims for weights trained with it",
        },
        seed=config.seed,
        versions={name: metadata.version(name) for name in ("torch", "ultralytics", "onnx", "onnxruntime")},
    )


def ultralytics_yolo() -> Any:
    """Ultralytics' YOLO class, with its telemetry and its look for newer versions off; refused where it is missing."""
    os.environ["YOLO_OFFLINE"] = "true"
    os.environ.setdefault("YOLO_VERBOSE", "false")
    try:
        ultralytics = importlib.import_module("ultralytics")
    except ImportError as error:
        fault = Fault("ultralytics", str(error), "the package")
        raise InvalidInputError("yolo", [fault], "pip install 'tether[detect]' (AGPL-3.0)") from error
    ultralytics.settings.update({"sync": False})
    return ultralytics.YOLO
