"""The two models of a student: what goes in and out of them, and opening them."""

from __future__ import annotations

from pathlib import Path

from tether.contracts import Primitive
from tether.errors import Fault
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import Manifest, TensorSpec, read_manifest
from tether.models.session import Expectation, Session, open_model
from tether.robot.roles import COMMAND_JOINTS
from tether.student import memory
from tether.student.labels import MAX_PARAMS
from tether.student.observation import DROPS, FIELDS, MODALITIES, PERIODS, ROLLED, STATE_SIZE

FUSION, POLICY = "fusion", "policy"
EYES = "eyes"
"""Entry of a fusion model's `trained_on`: hash of the image encoder whose tokens it was trained on."""
FEATURES, SUMMARY, CAMERA = "features", "summary", "camera"
"""Settings of a fusion model: sizes of features and of a period's summary, and whether it takes camera tokens."""


def fusion_tensors(features: int, summary: int, camera: bool) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of a fusion model; every first axis is 1."""
    inputs = [
        TensorSpec(field.name, (1, *field.shape), doc=field.doc)
        for field in FIELDS
        if camera or field.name not in DROPS["camera"]
    ]
    inputs.append(TensorSpec("history", (1, PERIODS - 1, summary), doc="summaries of the periods before, oldest first"))
    outputs = (
        TensorSpec("p", (1, 3), doc="m, cube in the base frame"),
        TensorSpec("v", (1, 3), doc="m/s"),
        TensorSpec("a", (1, 3), doc="m/s^2"),
        TensorSpec("log_sigma", (1, 1), doc="of the position, m"),
        TensorSpec("states", (1, 1 + ROLLED, STATE_SIZE), doc="now and the next periods, scaled"),
        TensorSpec("features", (1, features)),
        TensorSpec("attention", (1, len(MODALITIES)), doc=", ".join(MODALITIES)),
        TensorSpec("summary", (1, summary), doc="of this period"),
    )
    return tuple(inputs), outputs


def policy_tensors(features: int) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of a policy model."""
    inputs = (
        TensorSpec("features", (1, features)),
        TensorSpec("memory", (1, memory.SIZE), doc="see tether.student.memory"),
    )
    outputs = (
        TensorSpec("logits", (1, len(Primitive)), doc="of the primitives"),
        TensorSpec("params", (1, len(Primitive), MAX_PARAMS), doc="-1 to 1 within the skill table's bounds"),
    )
    return inputs, outputs


def open_fusion(folder: Path, skills_sha256: str) -> Session:
    """The fusion model in `folder`; raises ModelRefusedError where it does not fit this robot and this code."""
    settings = read_manifest(folder).settings
    inputs, outputs = fusion_tensors(*_sizes(settings))
    return open_model(
        folder, _expectation(f"student-{FUSION}", inputs, outputs, skills_sha256, (FEATURES, SUMMARY, CAMERA))
    )


def open_policy(folder: Path, skills_sha256: str) -> Session:
    """The policy model in `folder`; likewise."""
    settings = read_manifest(folder).settings
    inputs, outputs = policy_tensors(int(settings.get(FEATURES, 1)))
    return open_model(folder, _expectation(f"student-{POLICY}", inputs, outputs, skills_sha256, (FEATURES,)))


def uses_camera(manifest: Manifest) -> bool:
    """Whether a fusion model takes the camera's tokens."""
    return manifest.settings[CAMERA] > 0.0


def require_eyes(fusion: Manifest, eyes: Manifest) -> None:
    """Raise ModelRefusedError (FOREIGN) where a fusion model was trained on the tokens of other eyes."""
    expected = fusion.trained_on.get(EYES, "")
    if eyes.sha256 != expected:
        fault = Fault("eyes", f"{eyes.sha256[:12]}…", f"{expected[:12] or 'none'}…, whose tokens the student knows")
        raise ModelRefusedError(Refusal.FOREIGN, f"eyes {eyes.version}", [fault], "use the eyes it was trained with")


def _sizes(settings: dict[str, float]) -> tuple[int, int, bool]:
    return int(settings.get(FEATURES, 1)), int(settings.get(SUMMARY, 1)), settings.get(CAMERA, 0.0) > 0.0


def _expectation(
    kind: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    skills_sha256: str,
    settings: tuple[str, ...],
) -> Expectation:
    return Expectation(kind, inputs, outputs, settings, COMMAND_JOINTS, skills_sha256)
