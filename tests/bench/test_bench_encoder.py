"""The encoder benchmark: every side computes the same, is measured in turn, and fails by name where it cannot."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from tether.bench import encoder
from tether.bench.encoder_sides import PARTS, Part, Side, make_side
from tether.cli import main
from tether.errors import InvalidInputError
from tether.models.store import Model
from tether.resources import resource_path
from tether.runtimes.selection import TOLERANCE
from tether.runtimes.trial import sample_inputs

FOLDERS = {Part.EYES: "eyes", Part.FUSION: "student/fusion", Part.POLICY: "student/policy"}


@pytest.fixture(scope="module")
def models() -> dict[Part, Model]:
    return {part: Model.read(resource_path("models") / folder) for part, folder in FOLDERS.items()}


@pytest.fixture(scope="module")
def shipped(models: dict[Part, Model]) -> Side:
    return make_side("shipped", models, 1)


def samples(models: dict[Part, Model]) -> list[encoder.Sample]:
    return [{part: sample_inputs(models[part].manifest.inputs, seed) for part in PARTS} for seed in range(2)]


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    encoder.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_sides_agree_and_are_written_with_their_split_and_ratios(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    words = ["--rounds", "1", "--threads", "1", "--leave-out", "torch_compile"]  # which compiles for a minute
    assert main(["bench", "encoder", *words, "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    sides = ("shipped", "torch_eager", "bare_ort")
    assert set(result["ratios"]) == {f"shipped_vs_{side}{suffix}" for side in sides[1:] for suffix in ("", "_cpu")}
    metrics = result["metrics"]
    for side in sides:
        assert metrics[f"{side}_ms"]["median"] > 0.0
        assert metrics[f"{side}_cpu_ms"]["median"] > 0.0
        split = sum(metrics[f"{side}_{part.value}_ms"]["median"] for part in PARTS)
        assert split <= metrics[f"{side}_ms"]["median"] * (1 + 1e-9)
    for side in sides[1:]:
        assert metrics[f"{side}_deviation"]["max"] <= TOLERANCE
    # the file's int8 arithmetic is not torch's float32: were they equal, one of them would not have been run
    assert metrics["torch_eager_deviation"]["max"] > 0.0
    assert metrics["bare_ort_deviation"]["max"] == 0.0
    assert {"resize_640x480_ms", "boxes_ms"} <= set(metrics)
    assert any("load average" in note for note in result["notes"])


@pytest.mark.slow
def test_a_compiled_model_says_what_the_eager_one_says(models: dict[Part, Model]) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    policy = {Part.POLICY: models[Part.POLICY]}
    inputs = sample_inputs(models[Part.POLICY].manifest.inputs, 0)
    sides = [make_side(name, policy, 1) for name in ("torch_compile", "torch_eager")]
    compiled, eager = (side.calls[Part.POLICY](inputs) for side in sides)
    assert set(compiled) == set(eager)
    for name, value in compiled.items():
        np.testing.assert_allclose(value, eager[name], rtol=0, atol=TOLERANCE)


def test_what_a_part_is_given_is_what_the_part_before_gave(shipped: Side, models: dict[Part, Model]) -> None:
    way = encoder.way_of(shipped, samples(models)[0])
    tokens = way.outputs[Part.EYES]["tokens"]
    inputs = {**samples(models)[0][Part.FUSION], "tokens": tokens}
    expected = shipped.calls[Part.FUSION](inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(way.outputs[Part.FUSION][name], value)
    assert set(way.took_s) == set(PARTS)
    assert sum(way.took_s.values()) <= way.whole_s


def test_a_side_that_computes_something_else_is_refused_by_side_part_and_output(
    shipped: Side, models: dict[Part, Model]
) -> None:
    def scaled(inputs: encoder.Tensors) -> encoder.Tensors:
        outputs = shipped.calls[Part.POLICY](inputs)
        return {**outputs, "logits": outputs["logits"] * np.float32(1.1)}

    other = dataclasses.replace(shipped, name="other", calls={**shipped.calls, Part.POLICY: scaled})
    with pytest.raises(InvalidInputError, match=r"other: policy, logits.*0\.1 off") as caught:
        encoder.compare([shipped, other], samples(models))
    assert len(caught.value.faults) == 1


def test_outputs_that_are_not_finite_are_refused(shipped: Side, models: dict[Part, Model]) -> None:
    def empty(inputs: encoder.Tensors) -> encoder.Tensors:
        return {name: np.full_like(value, np.nan) for name, value in shipped.calls[Part.POLICY](inputs).items()}

    other = dataclasses.replace(shipped, name="other", calls={**shipped.calls, Part.POLICY: empty})
    with pytest.raises(InvalidInputError, match="other: policy, params"):
        encoder.compare([shipped, other], samples(models))


def test_without_torch_the_extra_is_named(models: dict[Part, Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInputError, match="extra `train`"):
        make_side("torch_eager", models, 1)


def test_without_a_compiler_it_is_named_with_what_to_leave_out(
    models: dict[Part, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InvalidInputError, match=r"no-such-compiler(.|\n)*--leave-out torch_compile"):
        make_side("torch_compile", models, 1)


def test_a_side_that_is_left_out_is_in_no_figure() -> None:
    left_out = ["torch_eager", "torch_compile"]
    arguments = parsed(
        "--rounds", "2", "--threads", "1", *(word for name in left_out for word in ("--leave-out", name))
    )
    benchmark = encoder.measure(arguments)
    assert set(benchmark.ratios) == {"shipped_vs_bare_ort", "shipped_vs_bare_ort_cpu"}
    assert not [name for name in benchmark.metrics if name.startswith("torch")]
    assert benchmark.metrics["shipped_ms"].n == 2
