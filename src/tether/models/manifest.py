"""Manifests: one JSON file beside each model that says all that is needed to run it and where it came from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from tether.config import bounded, parse
from tether.errors import Fault, InvalidInputError
from tether.models.errors import ModelRefusedError, Refusal
from tether.signing.policy import read_trusted
from tether.signing.statement import Kind, SignatureRefusedError

FORMAT = 1
"""Version of the manifest itself."""
MANIFEST_FILE = "manifest.json"


class DType(str, Enum):
    """Element types that cross a model's border; values are NumPy's names."""

    UINT8 = "uint8"
    INT64 = "int64"
    FLOAT32 = "float32"
    BOOL = "bool"


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. Shapes are fixed: what a model is given is known when it is loaded."""

    name: str
    shape: tuple[int, ...] = bounded(1, 1 << 24)
    dtype: DType = DType.FLOAT32
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.value} {list(self.shape)}"


@dataclass(frozen=True)
class Normalisation:
    """What is done to an input inside the model: (x - mean) / std, per channel of its last axis or one for all.

    A record of what the model does, not a task for its caller.
    """

    input: str
    mean: tuple[float, ...]
    std: tuple[float, ...] = bounded(1e-9, None)

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not self.mean:
            fault = Fault("std", f"{len(self.std)} numbers beside {len(self.mean)} of mean", "as many, one or more")
            raise InvalidInputError("normalisation", [fault])


@dataclass(frozen=True)
class Manifest:
    """All that is known about one model file.

    kind: what it is for, e.g. `eyes`. version: grows with each release of a kind. settings: numbers the code around it
    needs (strides, thresholds). joint_order and skills_sha256: None for models that know neither joints nor skills.
    trained_on, versions: names to text. scores: name → figure measured on held-out data.
    """

    kind: str
    version: str
    model_file: str
    sha256: str
    opset: int = bounded(1, 100)
    ir_version: int = bounded(3, 100)
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    normalisation: tuple[Normalisation, ...] = ()
    settings: dict[str, float] = field(default_factory=dict)
    joint_order: tuple[str, ...] | None = None
    skills_sha256: str | None = None
    trained_on: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    seed: int = bounded(0, None, default=0)
    versions: dict[str, str] = field(default_factory=dict)
    format: int = bounded(FORMAT, FORMAT, default=FORMAT)

    def __post_init__(self) -> None:
        faults = list(_text_faults(self))
        names = [spec.name for spec in (*getattr(self, "inputs", ()), *getattr(self, "outputs", ()))]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            faults.append(Fault("inputs, outputs", f"{repeated} more than once", "names that differ"))
        for part in ("inputs", "outputs"):
            if getattr(self, part, None) == ():
                faults.append(Fault(part, "none", "one or more tensors"))
        known = {spec.name for spec in getattr(self, "inputs", ())}
        for rule in getattr(self, "normalisation", ()):
            if rule.input not in known:
                faults.append(Fault("normalisation", f"input {rule.input!r}", f"one of {sorted(known)}"))
        if faults:
            raise InvalidInputError("manifest", faults)

    def to_json(self) -> str:
        """The manifest as the text of its file."""
        return json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False) + "\n"


def _text_faults(manifest: Manifest) -> Iterable[Fault]:
    sha256 = getattr(manifest, "sha256", "0" * 64)
    if not _is_sha256(sha256):
        yield Fault("sha256", repr(sha256)[:80], "64 hexadecimal digits in lower case")
    skills = getattr(manifest, "skills_sha256", None)
    if skills is not None and not _is_sha256(skills):
        yield Fault("skills_sha256", repr(skills)[:80], "64 hexadecimal digits in lower case, or null")
    file = getattr(manifest, "model_file", "model.onnx")
    if Path(file).name != file or not file.endswith(".onnx"):
        yield Fault("model_file", repr(file), "the name of an .onnx file beside the manifest")
    for name in ("kind", "version"):
        if getattr(manifest, name, "x") == "":
            yield Fault(name, "an empty text", "a name")


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`; raises ModelRefusedError (MISSING, SIGNATURE, MANIFEST) with every fault in it.

    What is parsed are the bytes whose signature was verified, as far as this process asks for one
    (`tether.signing.policy`); the manifest in turn pins the bytes of the model file.
    """
    path = folder / MANIFEST_FILE
    try:
        data: Any = json.loads(read_trusted(path, Kind.MODEL), object_pairs_hook=_unique)
    except SignatureRefusedError as error:
        raise ModelRefusedError(Refusal.SIGNATURE, "model", error.faults, error.fix) from error
    except OSError as error:
        fault = Fault(str(path), error.strerror or str(error), "a model's manifest")
        raise ModelRefusedError(
            Refusal.MISSING, "model", [fault], "name a folder with a model, or train one: `tether train`"
        ) from error
    except (ValueError, RecursionError) as error:
        fault = Fault(str(path), str(error)[:200], "JSON")
        raise ModelRefusedError(Refusal.MANIFEST, "model", [fault], "export the model anew") from error
    try:
        return parse(data, Manifest, str(path))
    except InvalidInputError as error:
        raise ModelRefusedError(Refusal.MANIFEST, "model manifest", error.faults, "export the model anew") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"keys given twice: {sorted({n for n in names if names.count(n) > 1})}")
    return made
