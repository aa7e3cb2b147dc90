"""Running a model: checked against manifest and expectation, then given to the runtime that is chosen here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from tether.config import bounded
from tether.errors import Fault
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import Manifest, TensorSpec
from tether.models.store import Model
from tether.runtimes.interface import Prepared
from tether.runtimes.selection import prepare

Tensors = Mapping[str, NDArray[Any]]


class Session(Protocol):
    """A loaded model. Deterministic: the same inputs give the same bits, on this machine and this runtime.

    runtime: what runs it, with its version, as decisions record it. threads: how many it may use.
    """

    @property
    def manifest(self) -> Manifest: ...

    @property
    def runtime(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def run(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        """Outputs by name, as fresh arrays, for exactly the manifest's inputs.

        Raises ModelRefusedError (INPUT) naming every input that is missing, extra or of another shape or dtype.
        """


@dataclass(frozen=True)
class Expectation:
    """What the code around a model asks of it. inputs and outputs: those that must be there, and no others.

    settings: names of the numbers the manifest must hold. joint_order, skills_sha256: None where the model must know
    neither.
    """

    kind: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    settings: tuple[str, ...] = ()
    joint_order: tuple[str, ...] | None = None
    skills_sha256: str | None = None


@dataclass(frozen=True)
class SessionConfig:
    """How a model is run."""

    threads: int = bounded(1, 64, default=1)


def open_model(folder: Path, expectation: Expectation, config: SessionConfig | None = None) -> Session:
    """Load the model in `folder` after checking all of it: manifest, fit, file hash, versions, and the graph itself.

    What runs it is `tether.runtimes.selection`'s choice: onnxruntime unless $TETHER_RUNTIME says otherwise. Raises
    ModelRefusedError; see `Refusal` for the reasons.
    """
    model = Model.read(folder)
    check_fit(model.manifest, expectation)
    return RunningModel(model.manifest, prepare(model, (config or SessionConfig()).threads))


def check_fit(manifest: Manifest, expectation: Expectation) -> None:
    """Raise ModelRefusedError (FOREIGN) with everything in which a manifest is not what is asked for."""
    faults: list[Fault] = []
    if manifest.kind != expectation.kind:
        faults.append(Fault("kind", repr(manifest.kind), repr(expectation.kind)))
    faults += tensor_faults("inputs", manifest.inputs, expectation.inputs)
    faults += tensor_faults("outputs", manifest.outputs, expectation.outputs)
    missing = [name for name in expectation.settings if name not in manifest.settings]
    if missing:
        faults.append(Fault("settings", f"no {', '.join(missing)}", f"{', '.join(expectation.settings)}"))
    for name in ("joint_order", "skills_sha256"):
        found, expected = getattr(manifest, name), getattr(expectation, name)
        if found != expected:
            faults.append(Fault(name, repr(found), repr(expected)))
    if faults:
        fix = "use a model made for this robot and this version, or train one anew: `tether train`"
        raise ModelRefusedError(Refusal.FOREIGN, f"model {manifest.kind} {manifest.version}", faults, fix)


def tensor_faults(where: str, found: tuple[TensorSpec, ...], expected: tuple[TensorSpec, ...]) -> list[Fault]:
    """In what two sets of tensors differ, by name: missing, extra, other shape, other dtype."""
    have, want = {spec.name: spec for spec in found}, {spec.name: spec for spec in expected}
    faults = [Fault(where, f"no {name}", str(want[name])) for name in want if name not in have]
    faults += [Fault(where, str(have[name]), f"only {', '.join(want)}") for name in have if name not in want]
    for name in want:
        if name in have and (have[name].shape, have[name].dtype) != (want[name].shape, want[name].dtype):
            faults.append(Fault(where, str(have[name]), str(want[name])))
    return faults


class RunningModel:
    """`Session` on whatever runtime prepared the model."""

    def __init__(self, manifest: Manifest, prepared: Prepared) -> None:
        self.manifest = manifest
        self._prepared = prepared

    @property
    def runtime(self) -> str:
        """See `Session`."""
        return self._prepared.label

    @property
    def threads(self) -> int:
        """See `Session`."""
        return self._prepared.threads

    def run(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        """See `Session`."""
        if faults := input_faults(self.manifest, inputs):
            raise ModelRefusedError(Refusal.INPUT, f"inputs of model {self.manifest.kind}", faults)
        for name, buffer in self._prepared.inputs.items():
            buffer[...] = inputs[name]
        self._prepared.run()
        return {name: buffer.copy() for name, buffer in self._prepared.outputs.items()}


def input_faults(manifest: Manifest, inputs: Tensors) -> list[Fault]:
    """Every input that is missing, extra, or of another shape or dtype."""
    faults = []
    for spec in manifest.inputs:
        value = inputs.get(spec.name)
        if value is None:
            faults.append(Fault("inputs", f"no {spec.name}", str(spec)))
        elif value.shape != spec.shape or value.dtype.name != spec.dtype.value:
            faults.append(Fault("inputs", f"{spec.name}: {value.dtype.name} {list(value.shape)}", str(spec)))
    known = [spec.name for spec in manifest.inputs]
    return faults + [Fault("inputs", name, f"only {', '.join(known)}") for name in inputs if name not in known]
