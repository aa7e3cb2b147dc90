"""A model file with its manifest and its scores, measured on the file itself by what runs it on a robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from tether.assembly import profile
from tether.models.manifest import Manifest, Normalisation, read_manifest
from tether.models.session import SessionConfig, open_model
from tether.models.store import UNSEALED, save_model
from tether.results import header, write_json
from tether.vision.contract import BOX_OUT, CONFIDENCE_OUT, EYES, KIND, PICTURE
from tether.vision.export import IR_VERSION, OPSET, Precision, export
from tether.vision.frames import Frames
from tether.vision.geometry import decode, suppress
from tether.vision.look import CANDIDATES_MAX, CONFIDENCE_MIN, IOU_MAX, SCORED_CONFIDENCE
from tether.vision.metrics import score
from tether.vision.network import MEAN, STD
from tether.vision.train import Trainer

VERSION = "1"


def release(trainer: Trainer, frames: Frames, held_out: Frames, folder: Path, precision: str) -> dict[str, float]:
    """Export the averaged network to `folder` with its scores on `held_out`, which are returned."""
    model = export(trainer.averaged, Precision(precision), frames.pictures)
    draft = _manifest(trainer, frames, held_out, precision)
    with TemporaryDirectory() as trial:
        save_model(Path(trial), model, draft)
        scores = scores_of_model(Path(trial), held_out)
    save_model(folder, model, replace(draft, scores=scores))
    return scores


def write_result(path: Path, trainer: Trainer, folder: Path, rollouts: Mapping[str, Mapping[str, float]]) -> None:
    """What a training came to, for machines: the released model's manifest and its figures on rollouts."""
    manifest = read_manifest(folder)
    write_json(
        path,
        {
            **header("train detector", trainer.config.seed),
            "steps": trainer.step,
            "training": asdict(trainer.config),
            "model": asdict(manifest),
            "model_bytes": (folder / manifest.model_file).stat().st_size,
            "held_out": manifest.scores,
            "rollouts": rollouts,
        },
    )


def scores_of_model(folder: Path, held_out: Frames) -> dict[str, float]:
    """Scores of the model in `folder`, run as on a robot."""
    session = open_model(folder, EYES, SessionConfig(threads=1))
    found = []
    for picture in held_out.pictures:
        out = session.run({PICTURE.name: picture[None]})
        boxes = decode(out[CONFIDENCE_OUT.name][0], out[BOX_OUT.name][0], CONFIDENCE_MIN, CANDIDATES_MAX)
        found.append(suppress(boxes, IOU_MAX))
    return score(held_out, found, SCORED_CONFIDENCE).as_dict()


def _manifest(trainer: Trainer, frames: Frames, held_out: Frames, precision: str) -> Manifest:
    return Manifest(
        kind=KIND,
        version=VERSION,
        model_file="eyes.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=EYES.inputs,
        outputs=EYES.outputs,
        normalisation=(Normalisation(PICTURE.name, (255.0 * MEAN,), (255.0 * STD,)),),
        trained_on={
            "frames": f"{len(frames)} rendered from the MuJoCo world with domain randomisation",
            "held_out": f"{len(held_out)} rendered from states and looks of other seeds",
            "profile": profile("real").name,
            "profile_sha256": profile("real").sha256,
            "steps": f"{trainer.step} of {trainer.config.batch} frames",
            "precision": precision,
        },
        seed=trainer.config.seed,
        versions={name: metadata.version(name) for name in ("torch", "torchvision", "onnx", "onnxruntime")},
    )
