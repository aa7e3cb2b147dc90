"""Manifests and sessions: what fits runs, everything else is refused by name."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra `train`")
pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from onnx import TensorProto, helper  # noqa: E402

from tether.errors import TetherError  # noqa: E402
from tether.models.errors import ModelRefusedError, Refusal  # noqa: E402
from tether.models.manifest import (  # noqa: E402
    MANIFEST_FILE,
    DType,
    Manifest,
    Normalisation,
    TensorSpec,
    read_manifest,
)
from tether.models.onnx_header import read_header  # noqa: E402
from tether.models.session import Expectation, SessionConfig, open_model  # noqa: E402
from tether.models.store import UNSEALED, Model, checked_bytes, save_model  # noqa: E402
from tether.runtimes.ort import OnnxRuntime  # noqa: E402

X = TensorSpec("x", (2, 3))
Y = TensorSpec("y", (2, 3))
JOINTS = ("a", "b")
EXPECTED = Expectation("sum", (X,), (Y,), settings=("scale",), joint_order=JOINTS, skills_sha256="1" * 64)


def model_bytes(opset: int = 17, ir_version: int = 8, names: tuple[str, str] = ("x", "y")) -> bytes:
    """y = x + x."""
    given, made = names
    graph = helper.make_graph(
        [helper.make_node("Add", [given, given], [made])],
        "sum",
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(made, TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    return bytes(model.SerializeToString())


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "kind": "sum",
        "version": "1",
        "model_file": "sum.onnx",
        "sha256": UNSEALED,
        "opset": 17,
        "ir_version": 8,
        "inputs": (X,),
        "outputs": (Y,),
        "normalisation": (Normalisation("x", (0.0,), (1.0,)),),
        "settings": {"scale": 2.0},
        "joint_order": JOINTS,
        "skills_sha256": "1" * 64,
        "trained_on": {"data": "none"},
        "scores": {"error": 0.0},
    }
    return Manifest(**{**values, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, model_bytes(), manifest())
    return tmp_path


def refusal(call: Callable[[], object]) -> ModelRefusedError:
    with pytest.raises(ModelRefusedError) as caught:
        call()
    assert isinstance(caught.value, TetherError)
    return caught.value


def test_model_that_fits_runs_and_tells_what_ran_it(folder: Path) -> None:
    session = open_model(folder, EXPECTED, SessionConfig(threads=2))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = session.run({"x": x})["y"]
    second = session.run({"x": x + 1})["y"]
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 2 * x + 2)
    assert session.threads == 2
    assert session.runtime.startswith("onnxruntime ")


def test_manifest_is_the_same_after_writing_and_reading(folder: Path) -> None:
    read = read_manifest(folder)
    assert read == manifest(sha256=read.sha256)
    assert read.inputs[0].dtype is DType.FLOAT32


def test_header_tells_ir_and_opset() -> None:
    header = read_header(model_bytes(opset=13, ir_version=7))
    assert (header.opset, header.ir_version) == (13, 7)


@pytest.mark.parametrize("keep", [0, 1, 10, -1])
def test_truncated_model_is_no_whole_model(keep: int) -> None:
    with pytest.raises(ValueError, match=r"ends|no end|no ir_version"):
        read_header(model_bytes()[:keep])


MUTATIONS: dict[str, Any] = {
    "kind": "product",
    "version": "",
    "model_file": "../sum.onnx",
    "sha256": "f" * 64,
    "opset": 18,
    "ir_version": 9,
    "inputs": [{"name": "x", "shape": [3, 2], "dtype": "float32", "doc": ""}],
    "outputs": [{"name": "z", "shape": [2, 3], "dtype": "float32", "doc": ""}],
    "normalisation": [{"input": "q", "mean": [0.0], "std": [1.0]}],
    "settings": {},
    "joint_order": ["b", "a"],
    "skills_sha256": None,
    "trained_on": "data",
    "scores": {"error": "small"},
    "seed": -1,
    "versions": {"torch": 2},
    "format": 2,
}


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(Manifest)])
def test_every_field_of_a_manifest_is_held_to(folder: Path, key: str) -> None:
    path = folder / MANIFEST_FILE
    data = json.loads(path.read_text())
    data[key] = MUTATIONS[key]
    path.write_text(json.dumps(data))
    error = refusal(lambda: open_model(folder, EXPECTED))
    assert key in str(error)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: (f / "sum.onnx").unlink(), Refusal.MISSING),
        (lambda f: (f / MANIFEST_FILE).unlink(), Refusal.MISSING),
        (lambda f: (f / MANIFEST_FILE).write_text("{"), Refusal.MANIFEST),
        (lambda f: (f / MANIFEST_FILE).write_text('{"kind": "a", "kind": "b"}'), Refusal.MANIFEST),
        (lambda f: (f / MANIFEST_FILE).write_text("[" * 100_000), Refusal.MANIFEST),
        (lambda f: (f / "sum.onnx").write_bytes((f / "sum.onnx").read_bytes()[:-5]), Refusal.HASH),
        (lambda f: (f / "sum.onnx").write_bytes(b""), Refusal.HASH),
    ],
)
def test_file_that_is_missing_or_damaged_is_refused(
    folder: Path, change: Callable[[Path], object], reason: Refusal
) -> None:
    change(folder)
    assert refusal(lambda: open_model(folder, EXPECTED)).refusal is reason


def test_truncated_file_with_a_manifest_to_match_is_refused(folder: Path) -> None:
    import hashlib

    cut = model_bytes()[:-4]
    (folder / "sum.onnx").write_bytes(cut)
    made = manifest(sha256=hashlib.sha256(cut).hexdigest())
    (folder / MANIFEST_FILE).write_text(made.to_json())
    assert refusal(lambda: open_model(folder, EXPECTED)).refusal is Refusal.DAMAGED


def test_graph_that_is_not_the_manifests_is_refused(tmp_path: Path) -> None:
    sealed = save_model(tmp_path, model_bytes(names=("a", "b")), manifest())
    data = checked_bytes(tmp_path, sealed)
    error = refusal(lambda: OnnxRuntime().prepare(Model(sealed, data), 1))
    assert error.refusal is Refusal.FOREIGN
    assert {fault.where for fault in error.faults} == {"inputs", "outputs"}


def test_opset_that_the_runtime_does_not_know_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path, model_bytes(opset=99), manifest(opset=99))
    assert refusal(lambda: open_model(tmp_path, EXPECTED)).refusal is Refusal.RUNTIME


def test_missing_runtime_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    error = refusal(lambda: open_model(folder, EXPECTED))
    assert error.refusal is Refusal.RUNTIME
    assert "install" in str(error)


def test_all_wrong_inputs_are_named_at_once_and_the_next_run_is_right(folder: Path) -> None:
    session = open_model(folder, EXPECTED)
    error = refusal(lambda: session.run({"q": np.zeros(1), "x": np.zeros((2, 3))}))
    assert error.refusal is Refusal.INPUT
    assert len(error.faults) == 2
    assert refusal(lambda: session.run({})).refusal is Refusal.INPUT
    np.testing.assert_array_equal(session.run({"x": np.ones((2, 3), np.float32)})["y"], 2.0)


def test_saving_what_is_no_model_writes_nothing(tmp_path: Path) -> None:
    assert refusal(lambda: save_model(tmp_path, b"text", manifest())).refusal is Refusal.DAMAGED
    assert not list(tmp_path.iterdir())
