"""torch as a runtime: the same file and weights computed by another library, to compare numbers with."""

from __future__ import annotations

from tether.errors import TetherError
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

_FIX = "install tether with its extra `train`, or choose another runtime: `tether runtimes`"


class TorchReference:
    """See `tether.runtimes.interface.Runtime`. Its number of threads is that of the whole process."""

    name = RuntimeName.TORCH

    def version(self) -> str:
        """See `Runtime`."""
        try:
            import onnx  # noqa: F401
            import torch
        except (ImportError, OSError) as error:
            raise refused("torch", error, "the packages torch and onnx", "model runtime", _FIX) from error
        return str(torch.__version__)

    def prepare(self, model: Model, threads: int) -> Prepared:
        """See `Runtime`."""
        return _PreparedTorch(model, threads, f"torch {self.version()} cpu")


class _PreparedTorch:
    """Inputs share memory with torch's tensors; outputs are copied into their buffers."""

    def __init__(self, model: Model, threads: int, label: str) -> None:
        import torch

        from tether.runtimes.torch_graph import OnnxModule

        manifest = model.manifest
        self.label, self.threads = label, threads
        self._kind = manifest.kind
        torch.set_num_threads(threads)
        try:
            self._module = OnnxModule(model.data, manifest)
            self.inputs: Buffers = buffers_for(manifest.inputs)
            self._tensors = [torch.from_numpy(buffer) for buffer in self.inputs.values()]
            with torch.inference_mode():
                made = self._module(*self._tensors)
        except TetherError:
            raise
        except Exception as error:  # what torch raises for a graph that does not fit shares no base but this one
            raise refused("torch", error, "a model that it can compute", f"model {self._kind}", _FIX) from error
        found = [
            GraphTensor(spec.name, value.numpy().dtype.name, tuple(value.shape))
            for spec, value in zip(manifest.outputs, made, strict=True)
        ]
        check_graph(manifest, [GraphTensor(s.name, s.dtype.value, s.shape) for s in manifest.inputs], found)
        self.outputs: Buffers = buffers_for(manifest.outputs)

    def run(self) -> None:
        """See `Prepared`."""
        import torch

        try:
            with torch.inference_mode():
                made = self._module(*self._tensors)
        except RuntimeError as error:
            raise refused("torch", error, "a run", f"model {self._kind}") from error
        for buffer, value in zip(self.outputs.values(), made, strict=True):
            buffer[...] = value.numpy()
