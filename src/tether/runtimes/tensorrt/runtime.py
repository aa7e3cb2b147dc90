"""The runtime `tensorrt`: an engine from the cache, or built first where building is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tether.models.errors import ModelRefusedError
from tether.models.store import Model
from tether.runtimes.interface import Buffers, GraphTensor, Prepared, RuntimeName, check_graph, refused
from tether.runtimes.memory import cache_folder
from tether.runtimes.tensorrt.cache import EngineCache, Miss, Stamp
from tether.runtimes.tensorrt.library import EngineLibrary, TensorRtLibrary


def engine_folder() -> Path:
    """Where engines are kept."""
    return cache_folder() / "engines"


class TensorRt:
    """See `tether.runtimes.interface.Runtime`.

    may_build: whether an engine is built where none fits. It takes minutes, so a node never does it in its own process;
    the process of a trial does.
    """

    name = RuntimeName.TENSORRT

    def __init__(
        self, library: EngineLibrary | None = None, folder: Path | None = None, *, may_build: bool = True
    ) -> None:
        self._library = library or TensorRtLibrary()
        self._cache = EngineCache(folder or engine_folder())
        self._may_build = may_build

    def version(self) -> str:
        """See `Runtime`."""
        return self._library.identify().tensorrt

    def prepare(self, model: Model, threads: int) -> Prepared:
        """See `Runtime`; `threads` is the caller's one, since the work is the device's."""
        device = self._library.identify()
        stamp = Stamp.of(device, model)
        label = f"tensorrt {device.tensorrt} {device.gpu.replace(' ', '-')}"
        found = self._cache.find(stamp)
        if isinstance(found, Miss):
            return _PreparedEngine(self._library, self._built(stamp, model, found.reason), model, label)
        try:
            return _PreparedEngine(self._library, found, model, label)
        except ModelRefusedError as error:
            self._cache.discard(stamp)
            return _PreparedEngine(self._library, self._built(stamp, model, str(error)), model, label)

    def _built(self, stamp: Stamp, model: Model, reason: str) -> bytes:
        if not self._may_build:
            raise refused(
                "tensorrt", reason, "an engine for this machine", f"model {model.manifest.kind}", "wait for it"
            )
        plan = self._library.build(model.data, {spec.name: spec.shape for spec in model.manifest.inputs})
        self._cache.keep(stamp, plan)
        return plan


class _PreparedEngine:
    threads = 1

    def __init__(self, library: EngineLibrary, plan: bytes, model: Model, label: str) -> None:
        self.label = label
        self._engine = library.load(plan)
        manifest = model.manifest
        shapes = {spec.name: spec.shape for spec in (*manifest.inputs, *manifest.outputs)}
        sides = [[_closed(tensor, shapes) for tensor in side] for side in (self._engine.inputs, self._engine.outputs)]
        check_graph(manifest, *sides)
        bound = self._engine.bind({spec.name: spec.shape for spec in manifest.inputs})
        self.inputs: Buffers = bound[0]
        self.outputs: Buffers = bound[1]

    def run(self) -> None:
        """See `Prepared`."""
        self._engine.run()


def _closed(tensor: GraphTensor, shapes: Mapping[str, tuple[int, ...]]) -> GraphTensor:
    """A tensor whose open axes have the sizes that the manifest gives them."""
    wanted = shapes.get(tensor.name, ())
    if len(wanted) != len(tensor.shape):
        return tensor
    shape = tuple(w if n == -1 else n for n, w in zip(tensor.shape, wanted, strict=True))
    return dataclasses.replace(tensor, shape=shape)
