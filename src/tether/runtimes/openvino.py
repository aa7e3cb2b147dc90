"""OpenVINO on the CPU: one stream, as many threads as were asked for, sums in float32 where the file has them."""

from __future__ import annotations

import importlib
from typing import Any

from tether.models.store import Model
from tether.runtimes.interface import (
    Buffers,
    GraphTensor,
    Prepared,
    RuntimeName,
    buffers_for,
    check_graph,
    refused,
)

_OLDEST = (2024, 0)
"""First release whose Python package is `openvino` itself, without `openvino.runtime` below it."""
_FIX = "pip install 'tether-robotics[openvino]', or choose another runtime: `tether runtimes`"


class OpenVino:
    """See `tether.runtimes.interface.Runtime`."""

    name = RuntimeName.OPENVINO

    def version(self) -> str:
        """See `Runtime`."""
        found = str(_openvino().__version__)
        try:
            release = tuple(int(part) for part in found.split("-")[0].split(".")[:2])
        except ValueError:
            release = (0, 0)
        if release < _OLDEST:
            raise refused("openvino", found, f"{_OLDEST[0]}.{_OLDEST[1]} or newer", "runtime openvino", _FIX)
        return found.split("-")[0]

    def prepare(self, model: Model, threads: int) -> Prepared:
        """See `Runtime`."""
        return _PreparedOpenVino(model, threads, f"openvino {self.version()} cpu")


class _PreparedOpenVino:
    """Its tensors share the memory of the buffers."""

    def __init__(self, model: Model, threads: int, label: str) -> None:
        ov = _openvino()
        manifest = model.manifest
        self.label, self.threads = label, threads
        self._kind = manifest.kind
        try:
            core = ov.Core()
            compiled = core.compile_model(core.read_model(model.data), "CPU", _settings(threads))
            self._request = compiled.create_infer_request()
            found = [_tensors(ports) for ports in (compiled.inputs, compiled.outputs)]
        except Exception as error:  # pybind's exceptions share no base but this one
            raise refused("openvino", error, "a model that it can compile", f"model {self._kind}", _FIX) from error
        check_graph(manifest, *found)
        self.inputs: Buffers = buffers_for(manifest.inputs)
        self.outputs: Buffers = buffers_for(manifest.outputs)
        for name, buffer in (*self.inputs.items(), *self.outputs.items()):
            self._request.set_tensor(name, ov.Tensor(buffer, shared_memory=True))

    def run(self) -> None:
        """See `Prepared`."""
        try:
            self._request.infer()
        except Exception as error:
            raise refused("openvino", error, "a run", f"model {self._kind}") from error


def _openvino() -> Any:
    try:
        return importlib.import_module("openvino")
    except (ImportError, OSError) as error:
        raise refused("openvino", error, "the package", "model runtime", _FIX) from error


def _settings(threads: int) -> dict[str, Any]:
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        # Processors with bfloat16 would otherwise round float32 sums to it.
        "INFERENCE_PRECISION_HINT": "f32",
    }


def _tensors(ports: Any) -> list[GraphTensor]:
    return [GraphTensor(p.any_name, p.element_type.to_dtype().name, tuple(p.shape)) for p in ports]
