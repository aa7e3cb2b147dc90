"""Collection and training: deterministic, resumable; labels that make sense wherever the student strays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from student_tools import TINY, short_task

from tether.assembly import profile, robot, skills
from tether.contracts import F64, Primitive, SampleRef, Stream, TruthSample
from tether.errors import InvalidInputError
from tether.ingest.encoder import Seen
from tether.motion.kinematics import ArmKinematics
from tether.student.collect import NOISY, Collection, collect, shard_path
from tether.student.data import CONTEXT, Episodes
from tether.student.labels import Scaling, ScriptedLabeller
from tether.student.profiles import Spread, draw
from tether.student.shards import read_shard
from tether.student.tokens import encode_shards
from tether.student.train import TrainConfig, checkpoint_step, coefficients, load_student, train

PLAN = Collection("pick_moving", "real", 2, seed=5, mix={"classic": 1.0, NOISY: 1.0}, shard_episodes=1, pictures=True)
SHORT = TrainConfig(steps=6, sequences=4, length=4, checkpoint_steps=3, network=TINY)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("episodes")
    assert collect(PLAN, folder) == 2
    return folder


def test_collection_goes_on_where_it_stopped_and_comes_out_the_same(collected: Path) -> None:
    second = shard_path(collected, range(1, 2))
    columns, lengths, meta = read_shard(second)
    second.unlink()
    assert collect(PLAN, collected) == 1
    again, lengths_again, meta_again = read_shard(second)
    assert meta == meta_again and lengths.tolist() == lengths_again.tolist()
    assert all(columns[name].tobytes() == again[name].tobytes() for name in columns)
    assert collect(PLAN, collected) == 0


def test_each_decision_has_picture_label_and_true_state(collected: Path) -> None:
    columns, lengths, _ = read_shard(shard_path(collected, range(0, 1)))
    n = int(lengths.sum())
    assert columns["picture"].shape == (n, 96, 128, 3) and columns["picture"][-1].any()
    assert np.allclose(columns["label_probability"].sum(axis=1), 1.0)
    assert np.isfinite(columns["true_acceleration"]).all()
    gap = columns["carried"][:, :2] - columns["true_cube"][:, :2]
    low = (columns["true_cube"][:, 2] < 0.014) & (columns["carried_mask"][:, 0] > 0) & (columns["tool"][:, 3] > 0.04)
    assert np.median(np.linalg.norm(gap[low], axis=1)) < 0.006


def test_a_student_acts_and_is_labelled_by_the_teacher(tiny_student: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, task=str(short_task(tmp_path)), episodes=1, mix={f"student@{tiny_student}": 1.0})
    collect(plan, tmp_path / "episodes")
    columns, lengths, meta = read_shard(shard_path(tmp_path / "episodes", range(0, 1)))
    assert meta[0]["actor"].startswith("student@") and int(lengths.sum()) == 40
    assert np.isfinite(columns["acted_estimate"]).all()
    assert set(columns["label_probability"].argmax(axis=1)) <= {1, 3, 4, 6}


def test_a_mix_that_would_let_an_oracle_act_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="mix"):
        replace(PLAN, mix={"scripted": 1.0})


def test_an_interrupted_training_ends_with_the_same_weights(collected: Path, tmp_path: Path) -> None:
    shards = sorted(collected.glob("*.npz"))
    whole = train(SHORT, shards, tmp_path / "whole")

    class InterruptedHereError(Exception):
        pass

    steps = []

    def interrupt(text: str) -> None:
        steps.append(text)
        if len(steps) == 5:
            raise InterruptedHereError

    with pytest.raises(InterruptedHereError):
        train(SHORT, shards, tmp_path / "parts", interrupt)
    assert checkpoint_step(tmp_path / "parts" / "checkpoint.pt") == 3
    train(SHORT, shards, tmp_path / "parts")
    resumed = load_student(tmp_path / "parts" / "checkpoint.pt")
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_sequences_stay_inside_their_episode_and_context_has_no_loss(collected: Path) -> None:
    episodes = Episodes(sorted(collected.glob("*.npz")))
    batch = episodes.sampled(np.random.default_rng(0), 8, 6)
    weight = batch.weight.view(8, 6 + CONTEXT)
    assert float(weight.sum()) > 0
    begins = batch.memory[:, 0, len(Primitive)] > 0  # nothing chosen yet: the first decision of an episode
    assert bool((weight[~begins, :CONTEXT] == 0).all())
    whole = episodes.whole(0)
    assert whole.state_mask[-1].tolist() == [1.0] + [0.0] * 6
    assert torch.equal(whole.states[3, 1], whole.states[4, 0])


def test_the_state_is_learned_before_what_acts_on_it() -> None:
    start, end = coefficients(0.0), coefficients(1.0)
    assert start["primitive"] < end["primitive"] and start["params"] < end["params"]
    assert start["prediction"] > end["prediction"]


def truth(gap: F64, opening: float, held: bool = False, rate: float = 0.0) -> TruthSample:
    joints = np.array([0.0, -1.0, 1.5, 1.07, 0.75, opening / 2])
    velocity = np.array([0.0, 0.0, 0.0, 0.0, 0.0, rate / 2])
    p = ArmKinematics(robot()).tcp(joints) + gap
    ref, zero = SampleRef(Stream.TRUTH, 0, 0), np.zeros(3)
    return TruthSample(ref, p, zero, zero, zero, joints, velocity, held, 0.0)


@pytest.mark.parametrize(
    ("gap", "opening", "held", "last", "expected"),
    [
        ((0.05, 0.0, -0.05), 0.044, False, None, Primitive.TRACK),
        ((0.004, 0.0, -0.05), 0.044, False, Primitive.TRACK, Primitive.GRASP),
        ((0.02, 0.0, -0.02), 0.044, False, Primitive.GRASP, Primitive.GRASP),
        ((0.06, 0.0, -0.02), 0.044, False, Primitive.GRASP, Primitive.TRACK),
        ((0.002, 0.0, 0.0), 0.024, True, Primitive.GRASP, Primitive.LIFT),
        ((0.002, 0.0, 0.0), 0.024, True, Primitive.LIFT, Primitive.LIFT),
        ((0.05, 0.0, 0.0), 0.024, False, Primitive.LIFT, Primitive.RETREAT),
        ((0.05, 0.0, 0.0), 0.005, False, Primitive.GRASP, Primitive.RETREAT),
        ((0.002, 0.0, 0.0), 0.024, True, Primitive.TRACK, Primitive.LIFT),
        ((0.05, 0.0, 0.0), 0.024, False, Primitive.RETREAT, Primitive.RETREAT),
    ],
)
def test_the_label_follows_from_the_state_and_the_running_primitive(
    gap: tuple[float, float, float], opening: float, held: bool, last: Primitive | None, expected: Primitive
) -> None:
    labeller = ScriptedLabeller(robot(), skills())
    state = truth(np.array(gap), opening, held)
    for _ in range(3):  # fingers that stand still have stalled only after a while
        label = labeller.label(state, last)
    assert Primitive(int(label.probability.argmax())) is expected


def test_scaled_parameters_come_back_within_their_bounds() -> None:
    scaling, table = Scaling(skills()), skills()
    for primitive in Primitive:
        params = table[primitive].default
        back = scaling.params(primitive, scaling.scaled(primitive, params).astype(np.float32))
        assert np.allclose(back, params, atol=1e-5)
        table.checked(primitive, scaling.params(primitive, np.full(5, 1.5, np.float32)))


def test_drawn_profiles_are_valid_and_the_same_for_the_same_seed() -> None:
    base = profile("real")
    drawn = [draw(base, Spread(), np.random.default_rng(seed)) for seed in range(20)]
    assert drawn == [draw(base, Spread(), np.random.default_rng(seed)) for seed in range(20)]
    assert 0 < sum(one == base for one in drawn) < 20
    latencies = [one.camera.delay.latency_s for one in drawn]
    assert min(latencies) < 0.06 and max(latencies) > 0.18


def test_pictures_become_the_tokens_that_the_student_would_have_had(collected: Path, tmp_path: Path) -> None:
    class Eyes:
        def look(self, rgb: np.ndarray, camera: object) -> Seen:
            return Seen(np.zeros((0, 6), np.float32), np.full((48, 64), rgb[40:60].mean() / 255.0, np.float32))

    assert encode_shards(collected, tmp_path, Eyes()) == 2
    assert encode_shards(collected, tmp_path, Eyes()) == 0
    before, _, meta = read_shard(shard_path(collected, range(0, 1)))
    after, _, again = read_shard(shard_path(tmp_path, range(0, 1)))
    assert meta == again and "picture" not in after
    seen = after["tokens_mask"][:, 0] > 0
    assert seen.any() and not seen[0], "no picture has come by the first decision"
    i = int(np.flatnonzero(seen)[-1])
    assert np.allclose(after["tokens"][i], before["picture"][i][40:60].mean() / 255.0, atol=1e-3)
    age_s = (before["stamp_ns"][i] - before["picture_ns"][i]) * 1e-9
    assert after["tokens_age"][i, 0] == pytest.approx(age_s / 0.25)
    mixed = Episodes([shard_path(tmp_path, range(0, 1)), shard_path(collected, range(1, 2))])
    shown = [bool(mixed.whole(number).obs["tokens_mask"].any()) for number in (0, 1)]
    assert mixed.has_tokens and sorted(shown) == [False, True]
