"""The only module that touches TensorRT and CUDA.

Written against NVIDIA's documentation and samples of TensorRT 10.x and 11.x (github.com/NVIDIA/TensorRT:
samples/python/common_runtime.py and introductory_parser_samples/onnx_resnet50.py; demo/Diffusion's engine.py for the
CUDA graph) and cuda-python's runtime bindings. It has not been run on a GPU; everything around it is tested with an
`EngineLibrary` of the tests' own.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tether.models.errors import ModelRefusedError
from tether.runtimes.interface import Buffers, GraphTensor, refused

SERIES = (10, 11)
_FIX = "pip install 'tether-robotics[tensorrt]' on a machine with an NVIDIA GPU and its driver"
_WORKSPACE_BYTES = 1 << 30


@dataclass(frozen=True)
class Device:
    """What an engine is good for. compute_capability: e.g. `8.7`; tensorrt, cuda: versions."""

    gpu: str
    compute_capability: str
    tensorrt: str
    cuda: str


class Engine(Protocol):
    """An engine on the device. `inputs` and `outputs` tell its tensors; `bind` makes their pinned buffers, once."""

    @property
    def inputs(self) -> list[GraphTensor]: ...

    @property
    def outputs(self) -> list[GraphTensor]: ...

    def bind(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Buffers, Buffers]:
        """Buffers of inputs and outputs; shapes: of the inputs."""

    def run(self) -> None:
        """Copy the inputs there, compute, copy the outputs back; returns when they are here."""


class EngineLibrary(Protocol):
    """What is asked of TensorRT. Every method raises ModelRefusedError (RUNTIME) where the library fails."""

    def identify(self) -> Device:
        """The device and the versions."""

    def build(self, onnx: bytes, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
        """An engine of a model, serialised; shapes: of its inputs, for those that the file leaves open."""

    def load(self, plan: bytes) -> Engine:
        """Bring a serialised engine onto the device."""


class TensorRtLibrary:
    """`EngineLibrary` on the real one."""

    def identify(self) -> Device:
        """See `EngineLibrary`."""
        trt, cuda = _modules()
        version = str(trt.__version__)
        if int(version.split(".")[0]) not in SERIES:
            series = " or ".join(f"{n}.x" for n in SERIES)
            raise refused("tensorrt", version, series, "runtime tensorrt", _FIX)
        if not _call(cuda, cuda.cudaGetDeviceCount()):
            raise refused("tensorrt", "no CUDA device", "an NVIDIA GPU", "runtime tensorrt", _FIX)
        about = _call(cuda, cuda.cudaGetDeviceProperties(0))
        name = about.name.decode() if isinstance(about.name, bytes) else str(about.name)
        driver = _call(cuda, cuda.cudaRuntimeGetVersion())
        capability = f"{about.major}.{about.minor}"
        return Device(name.rstrip("\0"), capability, version, f"{driver // 1000}.{driver % 1000 // 10}")

    def build(self, onnx: bytes, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
        """See `EngineLibrary`. Strongly typed: precision is what the file says, and no flag changes it."""
        trt, _ = _modules()
        builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
        typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)  # the only way from 11 on
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = trt.OnnxParser(network, trt.Logger(trt.Logger.WARNING))
        if not parser.parse(onnx):
            errors = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
            raise refused("tensorrt", errors, "a model that it can parse", "engine")
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE_BYTES)
        open_inputs = [
            tensor.name for tensor in map(network.get_input, range(network.num_inputs)) if -1 in tuple(tensor.shape)
        ]
        if open_inputs:
            profile = builder.create_optimization_profile()
            for name in open_inputs:
                profile.set_shape(name, shapes[name], shapes[name], shapes[name])
            config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise refused("tensorrt", "nothing built", "an engine", "engine", "see what it logged")
        return bytes(plan)

    def load(self, plan: bytes) -> Engine:
        """See `EngineLibrary`."""
        trt, cuda = _modules()
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        engine = runtime.deserialize_cuda_engine(plan)
        if engine is None:
            raise refused(
                "tensorrt", "an engine that it cannot read", "one built by this version on this GPU", "engine"
            )
        return _CudaEngine(trt, cuda, runtime, engine)


class _CudaEngine:
    """Buffers on both sides, one stream, and after a first run one CUDA graph of copies and kernels."""

    def __init__(self, trt: Any, cuda: Any, runtime: Any, engine: Any) -> None:
        self._trt, self._cuda, self._runtime, self._engine = trt, cuda, runtime, engine
        self._context = engine.create_execution_context()
        if self._context is None:
            raise refused("tensorrt", "no execution context", "memory on the device for one", "engine")
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self._is_input = {name: engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
        self.inputs = [self._tensor(name) for name in names if self._is_input[name]]
        self.outputs = [self._tensor(name) for name in names if not self._is_input[name]]
        self._stream = self._done(cuda.cudaStreamCreate())
        self._host: dict[str, NDArray[Any]] = {}
        self._device: dict[str, int] = {}
        self._graph: Any = None

    def bind(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Buffers, Buffers]:
        """See `Engine`."""
        for tensor in self.inputs:
            if not self._context.set_input_shape(tensor.name, shapes[tensor.name]):
                raise refused("tensorrt", f"{tensor.name} refused", f"shape {list(shapes[tensor.name])}", "engine")
        for tensor in (*self.inputs, *self.outputs):
            shape = tuple(self._context.get_tensor_shape(tensor.name))
            self._host[tensor.name] = self._pinned(shape, np.dtype(tensor.dtype))
            self._device[tensor.name] = int(self._done(self._cuda.cudaMalloc(self._host[tensor.name].nbytes)))
            if not self._context.set_tensor_address(tensor.name, self._device[tensor.name]):
                raise refused("tensorrt", f"address of {tensor.name} refused", "a bound tensor", "engine")
        self._enqueue()  # what is set up at a first run must not be captured
        self._synchronise()
        self._capture()
        return tuple(  # type: ignore[return-value]
            {tensor.name: self._host[tensor.name] for tensor in side} for side in (self.inputs, self.outputs)
        )

    def run(self) -> None:
        """See `Engine`."""
        self._done(self._cuda.cudaGraphLaunch(self._graph, self._stream))
        self._synchronise()

    def _capture(self) -> None:
        cuda = self._cuda
        mode = cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._done(cuda.cudaStreamBeginCapture(self._stream, mode))
        self._enqueue()
        graph = self._done(cuda.cudaStreamEndCapture(self._stream))
        self._graph = self._done(cuda.cudaGraphInstantiate(graph, 0))

    def _enqueue(self) -> None:
        kind = self._cuda.cudaMemcpyKind
        for tensor in self.inputs:
            self._copy(tensor.name, kind.cudaMemcpyHostToDevice)
        if not self._context.execute_async_v3(int(self._stream)):
            raise refused("tensorrt", "execute_async_v3 refused", "a run", "engine")
        for tensor in self.outputs:
            self._copy(tensor.name, kind.cudaMemcpyDeviceToHost)

    def _copy(self, name: str, kind: Any) -> None:
        host, device = self._host[name].ctypes.data, self._device[name]
        to, source = (device, host) if self._is_input[name] else (host, device)
        self._done(self._cuda.cudaMemcpyAsync(to, source, self._host[name].nbytes, kind, self._stream))

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        pointer = int(self._done(self._cuda.cudaMallocHost(n_bytes)))
        raw = (ctypes.c_ubyte * n_bytes).from_address(pointer)
        array: NDArray[Any] = np.ndarray(shape, dtype, buffer=memoryview(raw))
        return array

    def _tensor(self, name: str) -> GraphTensor:
        dtype = np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(name))).name
        return GraphTensor(name, dtype, tuple(self._engine.get_tensor_shape(name)))

    def _synchronise(self) -> None:
        self._done(self._cuda.cudaStreamSynchronize(self._stream))

    def _done(self, answer: Any) -> Any:
        return _call(self._cuda, answer)

    def __del__(self) -> None:
        """Give memory back, as far as the device still answers."""
        cuda = self._cuda
        if self._graph is not None:
            cuda.cudaGraphExecDestroy(self._graph)
        for pointer in self._device.values():
            cuda.cudaFree(pointer)


def _modules() -> tuple[Any, Any]:
    """The packages `tensorrt` and `cuda.bindings.runtime` (before cuda-python 12.6 `cuda.cudart`)."""
    try:
        trt = importlib.import_module("tensorrt")
        try:
            cuda = importlib.import_module("cuda.bindings.runtime")
        except ModuleNotFoundError:
            cuda = importlib.import_module("cuda.cudart")
    except (ImportError, OSError) as error:
        raise refused("tensorrt", error, "the packages tensorrt and cuda-python", "model runtime", _FIX) from error
    return trt, cuda


def _call(cuda: Any, answer: Any) -> Any:
    """The value of a CUDA call, which answers (error, value); raises ModelRefusedError for an error."""
    error, values = answer[0], answer[1:]
    if int(error) != 0:
        name = cuda.cudaGetErrorName(error)[1]
        text = name.decode() if isinstance(name, bytes) else str(name)
        raise _cuda_failed(text)
    return values[0] if values else None


def _cuda_failed(text: str) -> ModelRefusedError:
    return refused("cuda", text, "a call that succeeds", "runtime tensorrt", "see nvidia-smi and the kernel's log")
