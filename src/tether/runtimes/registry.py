"""Name → runtime. A runtime's library is imported when the runtime is asked for its version, not before."""

from __future__ import annotations

from tether.runtimes.interface import Runtime, RuntimeName


def runtime(name: RuntimeName) -> Runtime:
    """The runtime of a name."""
    if name is RuntimeName.OPENVINO:
        from tether.runtimes.openvino import OpenVino

        return OpenVino()
    if name is RuntimeName.TORCH:
        from tether.runtimes.torch_reference import TorchReference

        return TorchReference()
    if name is RuntimeName.TENSORRT:
        from tether.runtimes.tensorrt.runtime import TensorRt

        return TensorRt()
    from tether.runtimes.ort import OnnxRuntime

    return OnnxRuntime(name)
