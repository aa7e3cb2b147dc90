"""A model and its manifest in a folder: written so that a reader finds both or is refused, and read so."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

from tether.errors import Fault
from tether.files import replaced
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import MANIFEST_FILE, Manifest, read_manifest
from tether.models.onnx_header import read_header


@dataclass(frozen=True, eq=False)
class Model:
    """A model file's bytes, already held against its manifest."""

    manifest: Manifest
    data: bytes

    @staticmethod
    def read(folder: Path) -> Model:
        """The model in `folder`, whole; raises ModelRefusedError, see `read_manifest` and `checked_bytes`."""
        manifest = read_manifest(folder)
        return Model(manifest, checked_bytes(folder, manifest))


def save_model(folder: Path, model: bytes, manifest: Manifest) -> Manifest:
    """Write `model` and `manifest` into `folder`; returns the manifest with the file's hash and versions filled in.

    Each file appears whole or not at all, the manifest last: in between, a reader finds a hash that does not match
    and refuses. Raises ModelRefusedError (DAMAGED) where `model` is no ONNX model.
    """
    try:
        header = read_header(model)
    except ValueError as error:
        raise ModelRefusedError(Refusal.DAMAGED, f"model {manifest.kind}: {error}", []) from error
    sealed = dataclasses.replace(
        manifest,
        sha256=hashlib.sha256(model).hexdigest(),
        opset=header.opset,
        ir_version=header.ir_version,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in ((manifest.model_file, model), (MANIFEST_FILE, sealed.to_json().encode())):
        with replaced(folder / name, durable=True) as file:
            file.write(data)
    return sealed


UNSEALED = "0" * 64
"""sha256 of a manifest that `save_model` has yet to fill in."""


def checked_bytes(folder: Path, manifest: Manifest) -> bytes:
    """The model file's bytes once its hash and its versions are the manifest's."""
    path = folder / manifest.model_file
    what = f"model {path}"
    try:
        data = path.read_bytes()
    except OSError as error:
        fault = Fault(str(path), error.strerror or str(error), "the model file that the manifest names")
        raise ModelRefusedError(Refusal.MISSING, what, [fault], "bring the file or train the model anew") from error
    found = hashlib.sha256(data).hexdigest()
    if found != manifest.sha256:
        fault = Fault("sha256", f"{found} ({len(data)} bytes)", manifest.sha256)
        raise ModelRefusedError(Refusal.HASH, what, [fault], "the file was changed or cut short: bring it anew")
    try:
        header = read_header(data)
    except ValueError as error:
        raise ModelRefusedError(
            Refusal.DAMAGED, what, [Fault("content", str(error), "a whole ONNX model")], "export it anew"
        ) from error
    if (header.opset, header.ir_version) != (manifest.opset, manifest.ir_version):
        fault = Fault(
            "opset, ir_version",
            f"{header.opset}, {header.ir_version}",
            f"{manifest.opset}, {manifest.ir_version} as in the manifest",
        )
        raise ModelRefusedError(Refusal.VERSION, what, [fault], "export it anew with its manifest")
    return data
