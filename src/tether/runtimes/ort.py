"""ONNX Runtime: on the CPU the runtime that always works; with a GPU its CUDA and TensorRT providers."""

from __future__ import annotations

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

_PROVIDERS = {
    RuntimeName.ONNXRUNTIME: ("CPUExecutionProvider", "cpu"),
    RuntimeName.ONNXRUNTIME_CUDA: ("CUDAExecutionProvider", "cuda"),
    RuntimeName.ONNXRUNTIME_TENSORRT: ("TensorrtExecutionProvider", "tensorrt"),
}
"""Runtime → the provider behind it, and its word in the label."""


class OnnxRuntime:
    """See `tether.runtimes.interface.Runtime`. One per provider."""

    def __init__(self, name: RuntimeName = RuntimeName.ONNXRUNTIME) -> None:
        self.name = name
        self._provider, self._device = _PROVIDERS[name]

    def version(self) -> str:
        """See `Runtime`."""
        ort = _onnxruntime()
        providers = ort.get_available_providers()
        if self._provider not in providers:
            fix = "install onnxruntime-gpu in place of onnxruntime, on a machine with an NVIDIA GPU"
            raise refused("onnxruntime", ", ".join(providers), self._provider, f"runtime {self.name.value}", fix)
        return str(ort.__version__)

    def prepare(self, model: Model, threads: int) -> Prepared:
        """See `Runtime`."""
        version = self.version()
        return _PreparedOrt(model, threads, f"{self.name.value} {version} {self._device}", self._provider)


class _PreparedOrt:
    """Inputs and outputs are bound to buffers once."""

    def __init__(self, model: Model, threads: int, label: str, provider: str) -> None:
        ort = _onnxruntime()
        manifest = model.manifest
        self.label, self.threads = label, threads
        self._kind = manifest.kind
        try:
            self._session = ort.InferenceSession(model.data, _options(ort, threads), providers=[provider])
        except Exception as error:  # pybind's exceptions share no base but this one
            fix = f"onnxruntime {ort.__version__} refuses the file: update it, or export the model anew"
            expected = f"a model of opset {manifest.opset} that it can run"
            raise refused("onnxruntime", error, expected, f"model {manifest.kind}", fix) from error
        used = self._session.get_providers()
        if used[:1] != [provider]:  # it falls back to the CPU by itself, where a GPU's libraries do not load
            raise refused("onnxruntime", ", ".join(used), provider, f"model {manifest.kind}", "see `tether runtimes`")
        check_graph(manifest, _tensors(self._session.get_inputs()), _tensors(self._session.get_outputs()))
        self.inputs: Buffers = buffers_for(manifest.inputs)
        self.outputs: Buffers = buffers_for(manifest.outputs)
        self._binding = self._session.io_binding()
        for name, buffer in self.inputs.items():
            self._binding.bind_input(name, "cpu", 0, buffer.dtype, buffer.shape, buffer.ctypes.data)
        for name, buffer in self.outputs.items():
            self._binding.bind_output(name, "cpu", 0, buffer.dtype, buffer.shape, buffer.ctypes.data)

    def run(self) -> None:
        """See `Prepared`."""
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:
            raise refused("onnxruntime", error, "a run", f"model {self._kind}") from error


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        fix = "install tether with its extra `sim` or `robot`, or choose a policy without models"
        raise refused("onnxruntime", error, "the package", "model runtime", fix) from error
    return onnxruntime


def _options(ort: Any, threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    # Threads that wait by spinning would take the core that another stage of the graph needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _tensors(nodes: Any) -> list[GraphTensor]:
    return [GraphTensor(node.name, _dtype_name(node.type), tuple(node.shape)) for node in nodes]


def _dtype_name(ort_type: str) -> str:
    inner = ort_type.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(inner, inner)
