"""What is recorded of a model's runtime is what runs it: anew after a fallback, and fixed where a check says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from tether.assembly import policy_kit, skill_of_task, skills
from tether.bridge.stage import OracleTeacher, StudentAlone
from tether.contracts import Estimate, FusedState, SampleRef, Stream
from tether.ingest.camera import CameraIngest, RawImage
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.running import runtimes_of
from tether.models.session import RunningModel
from tether.models.store import Model
from tether.policy.classic import ClassicPolicy
from tether.policy.stage import PolicyStage
from tether.resources import resource_path
from tether.runtimes import selection
from tether.runtimes.fallback import WithFallback
from tether.runtimes.interface import REFERENCE, Buffers, RuntimeName
from tether.runtimes.memory import Trial
from tether.runtimes.registry import runtime
from tether.student.policy import StudentPolicy
from tether.vision.eyes import LearnedEyes

GPU = "tensorrt 10.3.0 Some GPU"


class Vanishing:
    """A `Prepared` at the boundary: computes as the reference does under another label, until its GPU is gone."""

    label, threads = GPU, 1

    def __init__(self, model: Model, runs: int) -> None:
        self._inner, self._left = runtime(REFERENCE).prepare(model, 1), runs

    @property
    def inputs(self) -> Buffers:
        return self._inner.inputs

    @property
    def outputs(self) -> Buffers:
        return self._inner.outputs

    def run(self) -> None:
        if not self._left:
            raise ModelRefusedError(Refusal.RUNTIME, "the GPU is gone", [])
        self._left -= 1
        self._inner.run()


def vanishing(name: str, runs: int) -> RunningModel:
    model = Model.read(resource_path("models") / name)
    return RunningModel(
        model.manifest, WithFallback(Vanishing(model, runs), lambda: runtime(REFERENCE).prepare(model, 1))
    )


def test_each_decision_is_labelled_with_the_runtime_that_computed_it() -> None:
    session = vanishing("student/policy", runs=2)
    stage = PolicyStage(StudentPolicy(skills(), session), skills(), threads=1)
    stage.reset(0)
    features = np.zeros(session.manifest.inputs[0].shape[-1], np.float32)
    labels = []
    for number in range(4):
        now_ns = 1_000_000_000 + 50_000_000 * number
        none, used = np.zeros((0, 6), np.float32), (SampleRef(Stream.IMU, now_ns, number),)
        state = FusedState(
            number, now_ns, used, {Stream.IMU: 0}, Estimate.none(now_ns), None, np.zeros((6, 0)), none, features,
            skill_of_task("pick"),
        )  # fmt: skip
        labels.append(stage.step(state, None).runtime)
    here = runtime(REFERENCE).version()
    assert labels == [GPU, GPU, f"onnxruntime {here} cpu", f"onnxruntime {here} cpu"]
    assert stage.runtimes == {session.manifest.sha256: labels[-1]}


def test_camera_ingest_says_which_runtime_looks_at_pictures_now() -> None:
    session = vanishing("eyes", runs=1)
    ingest = CameraIngest(LearnedEyes(session))
    picture = RawImage(0, "rgb8", 160, 120, 480, False, bytes(160 * 120 * 3))
    labels = []
    for number in range(2):
        ingest.look(picture, None, SampleRef(Stream.CAMERA, number, number))
        labels.append(ingest.runtimes[session.manifest.sha256].split()[0])
    assert labels == ["tensorrt", "onnxruntime"]


def test_the_bridge_says_which_runtime_its_teacher_has() -> None:
    manifest = Model.read(resource_path("models") / "teacher").manifest
    stage = OracleTeacher(policy_kit("teacher").make())
    assert stage.runtimes == {manifest.sha256: f"onnxruntime {runtime(REFERENCE).version()} cpu"}
    assert StudentAlone().runtimes == {}


def test_what_runs_no_model_has_no_runtimes() -> None:
    assert runtimes_of(ClassicPolicy) == {}


def test_a_fixed_runtime_is_taken_whatever_the_environment_asks_for_and_left_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(selection.RUNTIME_VARIABLE, "openvino")
    model, other = (Model.read(resource_path("models") / name) for name in ("teacher", "student/policy"))
    with selection.fixed({model.manifest.sha256: REFERENCE}):
        assert selection.prepare(model, 1).label.startswith("onnxruntime ")
        with pytest.raises(ModelRefusedError, match="openvino"):
            selection.prepare(other, 1, lambda name, *_: Trial(name, "its process crashed with signal 11"))
    with pytest.raises(ModelRefusedError, match="openvino"):
        selection.prepare(model, 1, lambda name, *_: Trial(name, "its process crashed with signal 11"))


def test_a_fixed_runtime_that_fails_its_trial_is_refused_and_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(selection.RUNTIME_VARIABLE, "auto")
    model = Model.read(resource_path("models") / "teacher")
    crashed = Trial(RuntimeName.OPENVINO, "its process crashed with signal 11")
    runtimes = {model.manifest.sha256: RuntimeName.OPENVINO}
    with selection.fixed(runtimes), pytest.raises(ModelRefusedError, match="signal 11"):
        selection.prepare(model, 1, lambda *_: crashed)
