"""The student at run time: no truth, deterministic, replayable, one code with training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from student_tools import save_tiny

from tether.assembly import policy_kit, robot, skill_of_task, skills
from tether.contracts import DECISION_NS, Decision, FusedState, Primitive, SampleRef, Source, Stream, TruthSample
from tether.errors import InvalidInputError
from tether.fusion.estimator import Arrivals
from tether.models.session import Session
from tether.rollout import Rollout
from tether.student.estimator import StudentEstimator
from tether.student.memory import PolicyMemory
from tether.student.models import open_fusion, open_policy
from tether.student.naming import StudentName, parse_name
from tether.student.observation import MODALITIES, Observer
from tether.student.policy import StudentPolicy

START = 1_000_000_000


def run(folder: Path, decisions: int = 30, without: str = "") -> tuple[list[FusedState], list[Decision]]:
    states, made = [], []
    with Rollout(f"student@{folder}{without}", "pick_moving", "real") as rollout:
        with pytest.raises(RuntimeError, match="no truth channel"):
            rollout.world.truth()
        for delivery, trace in rollout.ticks(5):
            assert not any(isinstance(sample, TruthSample) for sample in delivery.samples)
            if trace is not None and trace.state is not None and trace.decision is not None:
                states.append(trace.state)
                made.append(trace.decision)
            if len(made) == decisions:
                break
    return states, made


@pytest.fixture(scope="module")
def first(tiny_student: Path) -> tuple[list[FusedState], list[Decision]]:
    return run(tiny_student)


def test_it_runs_in_a_world_without_a_truth_channel(first: Any) -> None:
    states, decisions = first
    assert {decision.action.source for decision in decisions} == {Source.STUDENT}
    assert all(Stream.TRUTH not in decision.age_ns for decision in decisions)
    assert decisions[0].runtime.startswith("onnxruntime")
    assert all(len(state.features) > 0 for state in states)


def test_a_second_run_is_the_same_bit_for_bit(tiny_student: Path, first: Any) -> None:
    again = run(tiny_student)
    for a, b in zip(first[1], again[1], strict=True):
        assert a.state_hash == b.state_hash and a.action.primitive is b.action.primitive
        assert a.action.params.tobytes() == b.action.params.tobytes()
        assert a.action.estimate.p_base_cube.tobytes() == b.action.estimate.p_base_cube.tobytes()


def test_attention_and_prediction_error_come_with_the_state(first: Any) -> None:
    states, _ = first
    late = states[-1]
    assert list(late.attention) == list(MODALITIES)
    assert late.attention["boxes"] > 0.0 and late.attention["camera"] == 0.0
    assert 0.0 < sum(late.attention.values()) <= 1.0 + 1e-5
    assert states[0].prediction_error is None
    assert late.prediction_error is not None and late.prediction_error > 0.0


def test_an_estimate_is_valid_only_once_something_was_seen(first: Any) -> None:
    states, _ = first
    assert not states[0].estimate.valid
    seen = [state for state in states if len(state.detections)]
    assert seen and all(np.isfinite(state.estimate.p_base_cube).all() for state in seen)


def test_a_masked_modality_is_masked_for_the_whole_run(tiny_student: Path) -> None:
    states, _ = run(tiny_student, without="-boxes", decisions=12)
    assert all(state.attention["boxes"] == 0.0 and not state.estimate.valid for state in states)


def test_the_truth_is_refused_by_the_policy(tiny_student: Path, first: Any) -> None:
    state = first[0][-1]
    zero = np.zeros(3)
    truth = TruthSample(SampleRef(Stream.TRUTH, START, 0), zero, zero, zero, zero, np.zeros(6), np.zeros(6), False, 0.0)
    policy = StudentPolicy(skills(), open_policy(tiny_student / "policy", skills().sha256))
    with pytest.raises(InvalidInputError, match="truth"):
        policy.decide(state, truth)
    with pytest.raises(InvalidInputError, match="features"):
        policy.decide(replace(state, features=np.zeros(0, np.float32)), None)


def test_primitives_that_the_task_skill_forbids_are_never_chosen(tiny_student: Path, first: Any) -> None:
    policy = StudentPolicy(skills(), open_policy(tiny_student / "policy", skills().sha256))
    policy.reset(0)
    mask = np.zeros(len(Primitive), np.bool_)
    mask[Primitive.RETREAT] = True
    state = replace(first[0][-1], skill=replace(first[0][-1].skill, primitive_mask=mask))
    assert policy.decide(state, None).primitive is Primitive.RETREAT


def test_the_state_hash_shows_what_was_remembered_and_which_model(tmp_path: Path, tiny_student: Path) -> None:
    def session(folder: Path) -> Session:
        return open_fusion(folder / "fusion", skills().sha256)

    estimator = StudentEstimator(robot(), 0.024, session(tiny_student))
    estimator.reset(skill_of_task("pick"))
    before = estimator.state_hash()
    estimator.update(START, Arrivals([], [], [], []))
    after = estimator.state_hash()
    save_tiny(tmp_path, seed=1)
    estimator.use(session(tmp_path))
    assert len({before, after, estimator.state_hash()}) == 3
    estimator.use(session(tiny_student))
    estimator.reset(skill_of_task("pick"))
    assert estimator.state_hash() == before


def test_training_and_run_time_see_the_same_arrays(tiny_student: Path) -> None:
    """The estimator's input, and that of an observer beside it as collection has one, are the same bits."""
    seen: list[dict[str, bytes]] = []

    class Spy(StudentEstimator):
        def update(self, stamp_ns: int, arrivals: Arrivals) -> Any:
            estimate = super().update(stamp_ns, arrivals)
            beside = observer.take(stamp_ns, arrivals)
            seen.append({name: self.observation[name].tobytes() for name in beside})
            assert seen[-1] == {name: value.tobytes() for name, value in beside.items()}
            return estimate

    observer = Observer(robot(), 0.024)
    observer.reset(skill_of_task("pick_moving"))
    with Rollout(f"student@{tiny_student}", "pick_moving", "real") as rollout:
        session = open_fusion(tiny_student / "fusion", skills().sha256)
        rollout._pipeline._s.fusion._estimator = Spy(robot(), 0.024, session)
        for delivery, _ in rollout.ticks(1):
            if delivery.tick == 40:
                break
    assert len(seen) >= 8


def test_names_of_students() -> None:
    assert parse_name("student@runs/a-b") == StudentName(Path("runs/a-b"))
    assert parse_name("student@runs/a-b-imu-camera") == StudentName(Path("runs/a-b"), ("imu", "camera"))
    assert parse_name("student-joints").without == ("joints",)
    for wrong in ("student-nose", "student@", "students"):
        with pytest.raises(InvalidInputError):
            parse_name(wrong)
    with pytest.raises(InvalidInputError):
        policy_kit("student-nose")


def test_memory_counts_closings_and_time_since_the_choice() -> None:
    from tether.contracts import JointSample
    from tether.robot.roles import COMMAND_JOINTS

    memory = PolicyMemory()
    for k, opening in enumerate([0.044, 0.044, 0.03, 0.024, 0.024, 0.044, 0.02]):
        position = np.array([0.0, 0.0, 0.0, 0.0, 0.0, opening / 2])
        now = START + k * DECISION_NS
        memory.before(now, JointSample(SampleRef(Stream.JOINTS, now, k), COMMAND_JOINTS, position, np.zeros(6)))
        memory.after(now, Primitive.GRASP)
    assert memory.closings == 2
    row = memory.before(START + 7 * DECISION_NS, None)
    assert row[Primitive.GRASP] == 1.0
    assert row[len(Primitive) + 1] == pytest.approx(0.35)
    dumped = memory.dump()
    memory.reset()
    assert memory.dump() != dumped
