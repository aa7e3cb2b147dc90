"""What a runtime is: it prepares a model once, with buffers made in advance, and runs it in these buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tether.errors import Fault
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import Manifest, TensorSpec
from tether.models.store import Model

Buffers = Mapping[str, NDArray[Any]]
"""Name of a tensor → the array that holds it. The arrays stay where they are for as long as the model is prepared."""


class RuntimeName(str, Enum):
    """The runtimes there are."""

    ONNXRUNTIME = "onnxruntime"
    """On the CPU: the default, the fallback of all others, and what shipped scores were measured with."""
    ONNXRUNTIME_CUDA = "onnxruntime-cuda"
    ONNXRUNTIME_TENSORRT = "onnxruntime-tensorrt"
    OPENVINO = "openvino"
    TENSORRT = "tensorrt"
    """The library itself, with engines that are built and kept on this machine."""
    TORCH = "torch"
    """A reference for numbers, not for speed."""


REFERENCE = RuntimeName.ONNXRUNTIME


class Prepared(Protocol):
    """A model that is loaded whole. One thread at a time may fill its inputs and run it.

    label: library, version and device, as decisions record it; its first word is a `RuntimeName`. threads: how many the
    library may use. inputs, outputs: arrays of the manifest's names, shapes and types, made once.
    """

    @property
    def label(self) -> str: ...

    @property
    def threads(self) -> int: ...

    @property
    def inputs(self) -> Buffers: ...

    @property
    def outputs(self) -> Buffers: ...

    def run(self) -> None:
        """Compute the outputs of what the inputs hold. Raises ModelRefusedError (RUNTIME) where the library fails."""


class Runtime(Protocol):
    """A library that can prepare models."""

    @property
    def name(self) -> RuntimeName: ...

    def version(self) -> str:
        """Version of the library. Raises ModelRefusedError (RUNTIME) where it, or the device it needs, is not here."""

    def prepare(self, model: Model, threads: int) -> Prepared:
        """Load a model. Raises ModelRefusedError: RUNTIME, or FOREIGN where the graph is not the manifest's."""


@dataclass(frozen=True)
class GraphTensor:
    """An input or output as the graph itself has it; dtype: NumPy's name."""

    name: str
    dtype: str
    shape: tuple[Any, ...]


def check_graph(manifest: Manifest, inputs: Sequence[GraphTensor], outputs: Sequence[GraphTensor]) -> None:
    """Hold the graph itself against the manifest, which could have been written for another one.

    Raises ModelRefusedError (FOREIGN).
    """
    faults: list[Fault] = []
    for where, tensors, specs in (("inputs", inputs, manifest.inputs), ("outputs", outputs, manifest.outputs)):
        found = {tensor.name: (tensor.dtype, list(tensor.shape)) for tensor in tensors}
        expected = {spec.name: (spec.dtype.value, list(spec.shape)) for spec in specs}
        if found != expected:
            faults.append(Fault(where, f"{found}", f"{expected} as in the manifest"))
    if faults:
        raise ModelRefusedError(Refusal.FOREIGN, f"graph of model {manifest.kind}", faults, "export it anew")


def buffers_for(specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Arrays of zeros for tensors."""
    return {spec.name: np.zeros(spec.shape, spec.dtype.value) for spec in specs}


def refused(library: str, found: object, expected: str, what: str, fix: str = "") -> ModelRefusedError:
    """A refusal (RUNTIME) that names the library."""
    return ModelRefusedError(Refusal.RUNTIME, what, [Fault(library, str(found)[:300], expected)], fix)
