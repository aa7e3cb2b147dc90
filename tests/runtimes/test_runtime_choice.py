"""Runtimes: they agree on the shipped models, refuse by name, are remembered per machine, and fall back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from tether.models.errors import ModelRefusedError, Refusal
from tether.models.session import RunningModel
from tether.models.store import Model
from tether.resources import resource_path
from tether.runtimes import selection
from tether.runtimes.interface import Buffers, GraphTensor, RuntimeName
from tether.runtimes.memory import Trial, book_path
from tether.runtimes.registry import runtime
from tether.runtimes.tensorrt.cache import EngineCache, Miss, Stamp
from tether.runtimes.tensorrt.library import Device
from tether.runtimes.tensorrt.runtime import TensorRt
from tether.runtimes.trial import largest_deviation, outputs_of, sample_inputs

DEVICE = Device("Some GPU", "8.7", "10.3.0", "12.6")
GOOD = b"an engine"


def shipped(name: str) -> Model:
    return Model.read(resource_path("models") / name)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


class Library:
    """`EngineLibrary` at the boundary: its engines are bytes, and only `GOOD` can be loaded."""

    def __init__(self, model: Model) -> None:
        self.model, self.n_built = model, 0

    def identify(self) -> Device:
        return DEVICE

    def build(self, onnx: bytes, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
        self.n_built += 1
        return GOOD

    def load(self, plan: bytes) -> Loaded:
        if plan != GOOD:
            raise ModelRefusedError(Refusal.RUNTIME, "engine", [])
        return Loaded(self.model)


class Loaded:
    def __init__(self, model: Model) -> None:
        sides = (model.manifest.inputs, model.manifest.outputs)
        self.inputs, self.outputs = ([GraphTensor(s.name, s.dtype.value, s.shape) for s in side] for side in sides)

    def bind(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Buffers, Buffers]:
        return tuple({t.name: np.zeros(t.shape, t.dtype) for t in side} for side in (self.inputs, self.outputs))  # type: ignore[return-value]

    def run(self) -> None:
        raise ModelRefusedError(Refusal.RUNTIME, "the GPU is gone", [])


@pytest.mark.parametrize("name", ["eyes", "student/fusion", "student/policy", "teacher"])
def test_torch_gives_the_numbers_of_onnxruntime_on_a_shipped_model(name: str) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    model = shipped(name)
    inputs = sample_inputs(model.manifest.inputs, 0)
    ours, theirs = (
        outputs_of(runtime(n).prepare(model, 1), inputs) for n in (RuntimeName.ONNXRUNTIME, RuntimeName.TORCH)
    )
    assert largest_deviation([ours], [theirs]) < selection.TOLERANCE


def test_a_truncated_model_is_refused_by_name() -> None:
    model = shipped("teacher")
    with pytest.raises(ModelRefusedError, match="onnxruntime"):
        selection.prepare(Model(model.manifest, model.data[: len(model.data) // 2]), 1)


def test_a_graph_that_is_not_the_manifests_is_refused_as_foreign() -> None:
    with pytest.raises(ModelRefusedError) as caught:
        selection.prepare(Model(shipped("teacher").manifest, shipped("student/policy").data), 1)
    assert caught.value.refusal is Refusal.FOREIGN


def test_an_input_of_another_size_is_refused_by_name() -> None:
    model = shipped("teacher")
    inputs = sample_inputs(model.manifest.inputs, 0)
    name = next(iter(inputs))
    inputs[name] = np.concatenate([inputs[name], inputs[name]])
    with pytest.raises(ModelRefusedError, match=name):
        RunningModel(model.manifest, selection.prepare(model, 1)).run(inputs)


def test_an_unknown_runtime_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(selection.RUNTIME_VARIABLE, "abacus")
    with pytest.raises(Exception, match="onnxruntime"):
        selection.requested()


def test_auto_tries_once_a_machine_and_anew_when_the_machine_is_another(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[RuntimeName] = []

    def trier(name: RuntimeName, model: Model, threads: int, timeout_s: float) -> Trial:
        tried.append(name)
        return Trial(name, "", "fast", 0.001, 1.0, 5.0)

    monkeypatch.setenv(selection.RUNTIME_VARIABLE, "auto")
    monkeypatch.setattr(selection, "candidates", lambda: [RuntimeName.OPENVINO])
    model = shipped("teacher")
    for _ in range(2):
        assert selection.decide(model, 1, trier).runtime is RuntimeName.OPENVINO
    assert len(tried) == 1
    monkeypatch.setattr("tether.runtimes.memory.machine_fingerprint", lambda: "another")
    selection.decide(model, 1, trier)
    assert len(tried) == 2
    book_path().write_text("{", encoding="utf-8")
    selection.decide(model, 1, trier)
    assert len(tried) == 3


@pytest.mark.parametrize(
    "trial",
    [
        Trial(RuntimeName.OPENVINO, "its process crashed with signal 11"),
        Trial(RuntimeName.OPENVINO, "", "inexact", 0.5, 1.0, 5.0),
        Trial(RuntimeName.OPENVINO, "", "slow", 0.001, 5.0, 1.0),
    ],
    ids=["crashed", "inexact", "slow"],
)
def test_auto_falls_back_to_onnxruntime(cache: Path, monkeypatch: pytest.MonkeyPatch, trial: Trial) -> None:
    monkeypatch.setenv(selection.RUNTIME_VARIABLE, "auto")
    monkeypatch.setattr(selection, "candidates", lambda: [RuntimeName.OPENVINO])
    prepared = selection.prepare(shipped("teacher"), 1, lambda *_: trial)
    assert prepared.label.startswith("onnxruntime ")


@pytest.mark.parametrize("field", ["gpu", "compute_capability", "tensorrt", "cuda", "precision"])
def test_an_engine_of_another_stamp_is_built_anew(tmp_path: Path, field: str) -> None:
    model = shipped("teacher")
    library, stamp = Library(model), Stamp.of(DEVICE, model)
    folder = tmp_path / "engines"
    EngineCache(folder).keep(dataclasses.replace(stamp, **{field: "other"}), GOOD)
    assert isinstance(EngineCache(folder).find(stamp), Miss)
    for _ in range(2):
        TensorRt(library, folder).prepare(model, 1)
    assert library.n_built == 1


def test_a_node_never_builds_an_engine_and_never_uses_a_damaged_one(tmp_path: Path) -> None:
    model = shipped("teacher")
    library, stamp = Library(model), Stamp.of(DEVICE, model)
    folder = tmp_path / "engines"
    EngineCache(folder).keep(stamp, GOOD)
    next(folder.glob("*.engine")).write_bytes(b"an engime")
    with pytest.raises(ModelRefusedError, match="damaged"):
        TensorRt(library, folder, may_build=False).prepare(model, 1)
    EngineCache(folder).keep(stamp, b"whole, but of no use")
    with pytest.raises(ModelRefusedError):
        TensorRt(library, folder, may_build=False).prepare(model, 1)
    assert library.n_built == 0


def test_an_engine_that_fails_mid_run_leaves_the_inputs_to_onnxruntime(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tether.runtimes.fallback import WithFallback

    model = shipped("teacher")
    first = TensorRt(Library(model), cache / "engines").prepare(model, 1)
    reference = runtime(RuntimeName.ONNXRUNTIME)
    inputs = sample_inputs(model.manifest.inputs, 0)
    found = outputs_of(both := WithFallback(first, lambda: reference.prepare(model, 1)), inputs)
    expected = outputs_of(reference.prepare(model, 1), inputs)
    assert both.label.startswith("onnxruntime ")
    assert largest_deviation([expected], [found]) == 0.0
