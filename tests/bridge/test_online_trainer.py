"""The trainer: from a teacher's labels on the student's own states to versions that the policy's switch takes."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from tether.assembly import policy_kit, skills
from tether.bridge.guard import GuardConfig, VersionGuard
from tether.bridge.online import THRESHOLD, OnlineConfig, OnlineTrainer
from tether.bridge.pairs import Pair
from tether.bridge.spool import SpoolConfig, SpoolWriter
from tether.bridge.store import PairStore
from tether.bridge.student_switch import FUSION_SHA256, student_switch
from tether.bridge.swap import ModelSwitch, SwapKind
from tether.bridge.threshold import MovingThreshold, ThresholdConfig
from tether.bridge.versions import publish, versions_in
from tether.contracts import Primitive
from tether.errors import InvalidInputError
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import read_manifest
from tether.models.session import Session
from tether.models.store import save_model
from tether.student import memory
from tether.student.models import FUSION, POLICY, open_policy

torch = pytest.importorskip("torch", reason="online training needs torch (extra `train`)")

from tether.bridge.learner import PolicyLearner  # noqa: E402

CONFIG = OnlineConfig(batch=64, capacity=500, least=50, steps_per_pair=1.0, publish_every=100, idle_s=0.01)


def features_of(folder: Path) -> int:
    return int(read_manifest(folder / POLICY).settings["features"])


def taught(folder: Path, number: int, rng: np.random.Generator) -> Pair:
    """The teacher grasps where the first feature is positive, else tracks."""
    features = rng.normal(size=features_of(folder)).astype(np.float32)
    probability = np.zeros(len(Primitive), np.float32)
    probability[Primitive.GRASP if features[0] > 0.0 else Primitive.TRACK] = 1.0
    mean = np.full((len(Primitive), 5), 0.3, np.float32)
    fields = {
        "input.features": features,
        "input.memory": np.zeros(memory.SIZE, np.float32),
        "input.prediction_error": np.float32(rng.uniform(0.0, 0.05)),
        "label.probability": probability,
        "label.mean": mean,
        "label.spread": np.full_like(mean, 0.05),
    }
    return Pair(0, number, number * 50_000_000, {name: np.asarray(value) for name, value in fields.items()})


def fill(spool: Path, folder: Path, pairs: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    writer = SpoolWriter(spool, SpoolConfig(pairs_per_shard=50, waiting_max=100))
    for number in range(pairs):
        writer.put(taught(folder, number, rng))
    writer.close()


def trainer_of(folder: Path, tmp_path: Path, config: OnlineConfig = CONFIG) -> OnlineTrainer:
    threshold = MovingThreshold(ThresholdConfig(floor=0.02, least=100), 0.15)
    learner = PolicyLearner(folder, skills().sha256, rate=3e-3)
    return OnlineTrainer(learner, tmp_path / "spool", tmp_path / "versions", config, threshold)


def switch_of(folder: Path) -> ModelSwitch:
    kit = policy_kit(f"student@{folder}")
    guard = VersionGuard(GuardConfig(decisions=20, least_decisions=10))
    return student_switch(f"student@{folder}", kit.make(), skills().sha256, guard)


def agreement(session: Session, folder: Path) -> float:
    """Share of fresh states on which a model chooses the teacher's primitive."""
    rng = np.random.default_rng(99)
    right = 0
    for number in range(200):
        fields = taught(folder, number, rng).fields
        out = session.run({"features": fields["input.features"][None], "memory": fields["input.memory"][None]})
        right += int(np.argmax(out["logits"][0])) == int(np.argmax(fields["label.probability"]))
    return right / 200


def test_student_learns_from_the_spool_and_the_switch_takes_what_is_published(
    tiny_student: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "spool", tiny_student, 600)
    trainer = trainer_of(tiny_student, tmp_path)
    done = trainer.turn()
    assert (done.pairs, done.steps) == (600, 600)
    assert done.version == tmp_path / "versions" / "v000001"
    before = agreement(open_policy(tiny_student / POLICY, skills().sha256), tiny_student)
    after = agreement(open_policy(done.version, skills().sha256), tiny_student)
    assert before < 0.7
    assert after > 0.85
    switch = switch_of(tiny_student)
    switch.offer(done.version)
    for _ in range(10):
        assert switch.before_decision() is None
        switch.saw(0.05)
    event = switch.before_decision()
    assert event is not None
    assert event.kind is SwapKind.SWAPPED
    assert event.sha256 == read_manifest(done.version).sha256


def test_version_says_what_it_was_made_of_and_where_the_threshold_stands(tiny_student: Path, tmp_path: Path) -> None:
    fill(tmp_path / "spool", tiny_student, 200)
    done = trainer_of(tiny_student, tmp_path).turn()
    assert done.version is not None
    manifest = read_manifest(done.version)
    assert manifest.trained_on[FUSION_SHA256] == read_manifest(tiny_student / FUSION).sha256
    assert manifest.trained_on["online_from"] == read_manifest(tiny_student / POLICY).sha256
    assert manifest.trained_on["online_updates"] == "200"
    assert manifest.skills_sha256 == skills().sha256
    assert 0.02 <= manifest.settings[THRESHOLD] < 0.15


def test_untaught_export_computes_what_the_start_computes(tiny_student: Path, tmp_path: Path) -> None:
    publish(tmp_path, lambda folder: PolicyLearner(tiny_student, skills().sha256).export(folder, {}))
    ((_, folder),) = versions_in(tmp_path)
    rng = np.random.default_rng(1)
    inputs = {
        "features": rng.normal(size=(1, features_of(tiny_student))).astype(np.float32),
        "memory": rng.normal(size=(1, memory.SIZE)).astype(np.float32),
    }
    a = open_policy(tiny_student / POLICY, skills().sha256).run(inputs)
    b = open_policy(folder, skills().sha256).run(inputs)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], atol=1e-5)


def test_new_trainer_goes_on_from_the_newest_version(tiny_student: Path, tmp_path: Path) -> None:
    fill(tmp_path / "spool", tiny_student, 400)
    done = trainer_of(tiny_student, tmp_path).turn()
    assert done.version is not None
    learner = PolicyLearner(tiny_student, skills().sha256)
    learner.go_on_from(done.version)
    again = publish(tmp_path / "versions", lambda folder: learner.export(folder, {}))
    assert agreement(open_policy(again, skills().sha256), tiny_student) > 0.8
    assert read_manifest(again).trained_on["online_updates"] == "400"


def test_version_of_another_fusion_is_refused_by_switch_and_trainer(tiny_student: Path, tmp_path: Path) -> None:
    fill(tmp_path / "spool", tiny_student, 200)
    done = trainer_of(tiny_student, tmp_path).turn()
    assert done.version is not None
    other = tmp_path / "other"
    shutil.copytree(tiny_student, other)
    manifest = read_manifest(other / FUSION)
    model = (other / FUSION / manifest.model_file).read_bytes()
    # An unknown field at the end of the file: the same model, another hash.
    save_model(other / FUSION, model + b"\xf8\x07\x01", manifest)
    with pytest.raises(ModelRefusedError, match="fusion") as caught:
        switch_of(other).offer(done.version)
    assert caught.value.refusal is Refusal.FOREIGN
    with pytest.raises(InvalidInputError, match="fusion"):
        PolicyLearner(other, skills().sha256).go_on_from(done.version)


def test_nothing_is_trained_or_published_before_there_are_enough_pairs(tiny_student: Path, tmp_path: Path) -> None:
    trainer = trainer_of(tiny_student, tmp_path)
    fill(tmp_path / "spool", tiny_student, 49)
    assert (trainer.turn().steps, trainer.turn().version) == (0, None)
    fill(tmp_path / "spool", tiny_student, 10)
    assert trainer.turn().steps == 59
    assert versions_in(tmp_path / "versions") == []


def test_shard_of_another_kind_is_left_out_and_counted(tiny_student: Path, tmp_path: Path) -> None:
    trainer = trainer_of(tiny_student, tmp_path)
    fill(tmp_path / "spool", tiny_student, 50)
    trainer.turn()
    pair = taught(tiny_student, 0, np.random.default_rng(0))
    narrow = dataclasses.replace(pair, fields={**pair.fields, "input.features": np.zeros(2, np.float32)})
    writer = SpoolWriter(tmp_path / "spool")
    writer.put(narrow)
    writer.close()
    assert trainer.turn().pairs == 0
    assert trainer.refused == 1


def test_policy_that_is_no_student_has_nothing_to_swap() -> None:
    with pytest.raises(InvalidInputError, match="student"):
        student_switch("classic", policy_kit("classic").make(), skills().sha256, VersionGuard())


def test_store_keeps_the_newest_and_draws_from_them_alone() -> None:
    store = PairStore(100)
    for start in range(0, 250, 25):
        store.add({"x": np.arange(start, start + 25)})
    drawn = store.sample(np.random.default_rng(0), 2000)["x"]
    assert len(store) == 100
    assert set(drawn.tolist()) == set(range(150, 250))
