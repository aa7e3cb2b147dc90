"""Pairs: the input is what had arrived, the label is on the truth as it was, and nothing is lost in silence."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from bridge_episodes import off_from, ticks
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.assembly import make_pair_stage
from tether.bridge.arbiter import Arbitration
from tether.bridge.pair_fields import AGES, PairShape
from tether.bridge.pairs import Pair, PairStage
from tether.contracts import (
    DECISION_NS,
    CameraModel,
    Command,
    Decision,
    Estimate,
    ExecutedCommand,
    FusedState,
    HybridAction,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    TruthSample,
)
from tether.fusion.estimator import Arrivals
from tether.robot.roles import COMMAND_JOINTS
from tether.student.labels import Label

MS = 1_000_000
SKILL = SkillContext(0, "pick", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))
CAMERA = CameraModel(320, 240, np.eye(3))
NONE = Arrivals([], [], [], [])


class NotedLabeller:
    """Notes what it is asked; its label's mean says the cube's x."""

    def __init__(self) -> None:
        self.asked: list[tuple[TruthSample, Primitive | None]] = []

    def reset(self) -> None:
        self.asked.clear()

    def label(self, truth: TruthSample, last: Primitive | None) -> Label:
        self.asked.append((truth, last))
        probability = np.zeros(len(Primitive), np.float32)
        probability[Primitive.TRACK] = 1.0
        mean = np.full((len(Primitive), 5), truth.p_base_cube[0], np.float32)
        return Label(probability, mean, np.full_like(mean, 0.05))


class Rig:
    """A pair stage fed by hand; x of every sample's value is its stamp in seconds."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.labeller = NotedLabeller()
        self.stage = PairStage(self.labeller, self.pairs.append)
        self.stage.reset(SKILL)

    def truth(self, stamp_ns: int, arrival_ns: int) -> None:
        x = np.array([stamp_ns * 1e-9, 0.0, 0.0])
        ref = SampleRef(Stream.TRUTH, stamp_ns, stamp_ns // MS)
        zero = np.zeros(6)
        truth = TruthSample(ref, x, np.zeros(3), np.zeros(3), np.zeros(3), zero, zero, False, 0.0)
        self.stage.take_truth(truth, arrival_ns)

    def joints(self, stamp_ns: int, arrival_ns: int) -> None:
        ref = SampleRef(Stream.JOINTS, stamp_ns, stamp_ns // MS)
        reading = JointSample(ref, COMMAND_JOINTS, np.full(6, stamp_ns * 1e-9), np.zeros(6))
        self.stage.take(Arrivals([], [], [reading], []), arrival_ns)

    def picture(self, stamp_ns: int, arrival_ns: int, rejected: str | None = None) -> None:
        ref = SampleRef(Stream.CAMERA, stamp_ns, stamp_ns // MS)
        box = np.array([[stamp_ns * 1e-9, 0, 1, 1, 0.9, 0]], np.float32)
        self.stage.take_picture(ImageFeature(ref, CAMERA, box, None, rejected), arrival_ns)

    def imu(self, stamp_ns: int, arrival_ns: int) -> None:
        sample = ImuSample(SampleRef(Stream.IMU, stamp_ns, stamp_ns // MS), np.full(3, stamp_ns * 1e-9), np.zeros(3))
        self.stage.take_imu(ImuBatch(0, 0, stamp_ns, (sample,)), arrival_ns)

    def executed(self, stamp_ns: int, arrival_ns: int) -> None:
        command = Command(
            0, stamp_ns, 0, Source.STUDENT, COMMAND_JOINTS, np.full(6, stamp_ns * 1e-9), np.zeros(6), np.zeros(3)
        )
        each = ExecutedCommand(SampleRef(Stream.EXECUTED, stamp_ns, stamp_ns // MS), command, False)
        self.stage.take(Arrivals([], [], [], [each]), arrival_ns)

    def decide(self, stamp_ns: int, primitive: Primitive = Primitive.TRACK, features: int = 0) -> None:
        number = stamp_ns // DECISION_NS
        state = FusedState(
            number, stamp_ns, (), {}, Estimate.none(stamp_ns), None, np.zeros((6, 0)),
            np.zeros((0, 6), np.float32), np.zeros(features, np.float32), SKILL,
        )  # fmt: skip
        action = HybridAction(number, stamp_ns, primitive, np.zeros(4), state.estimate, Source.STUDENT)
        decision = Decision(action, (), {}, "student: test", "", "", "numpy", 1)
        self.stage.decided(0, state, action, decision)


def newest(pair: Pair) -> dict[str, float]:
    """Stamps, in seconds, that the values of a pair tell of; 0 where there is none."""
    f = pair.fields
    return {
        "joints": float(f["input.joint_position"][0]),
        "camera": float(f["input.detections"][0, 0]),
        "imu": float(f["input.imu"][0, -1]),
        "executed": float(f["input.executed"][-1, 0]),
    }


arrivals = st.lists(
    st.tuples(
        st.sampled_from(["joints", "picture", "imu", "executed"]),
        st.integers(1, 400),  # stamp, ms
        st.integers(0, 300),  # delay, ms
    ),
    max_size=60,
    unique_by=lambda each: (each[0], each[1]),
)


@given(arrivals, st.integers(1, 8))
@settings(max_examples=120, deadline=None)
def test_input_is_the_newest_of_what_had_arrived_by_the_decision(
    samples: list[tuple[str, int, int]], number: int
) -> None:
    rig, t_ns = Rig(), number * DECISION_NS
    for kind, stamp_ms, delay_ms in sorted(samples, key=lambda each: each[1] + each[2]):
        getattr(rig, kind)(stamp_ms * MS, (stamp_ms + delay_ms) * MS)
    rig.decide(t_ns)
    rig.truth(t_ns, t_ns)
    (pair,) = rig.pairs
    found = newest(pair)
    for kind, name in (("joints", "joints"), ("picture", "camera"), ("imu", "imu"), ("executed", "executed")):
        had = [stamp for each, stamp, delay in samples if each == kind and (stamp + delay) * MS <= t_ns]
        assert found[name] == pytest.approx(max(had, default=0) * 1e-3, abs=1e-6)
        age_s = float(pair.fields["input.age_s"][AGES.index(Stream(name))])
        assert age_s == pytest.approx(t_ns * 1e-9 - max(had) * 1e-3 if had else -1.0, abs=1e-6)


@given(st.lists(st.integers(0, 600), min_size=1, max_size=20, unique=True), st.integers(1, 10), st.integers(0, 200))
@settings(max_examples=120, deadline=None)
def test_label_is_on_the_truth_at_the_decisions_own_time_however_late_that_comes(
    stamps_ms: list[int], number: int, late_ms: int
) -> None:
    rig, t_ns = Rig(), number * DECISION_NS
    rig.decide(t_ns)
    for stamp_ms in sorted(stamps_ms):
        rig.truth(stamp_ms * MS, (stamp_ms + late_ms) * MS)
    for pair in rig.pairs:
        assert pair.fields["label.p_base_cube"][0] == pytest.approx(t_ns * 1e-9, abs=1e-6)
    at_hand = t_ns // MS in stamps_ms
    if at_hand and late_ms * MS <= 10 * DECISION_NS:
        assert len(rig.pairs) == 1
        assert rig.stage.stats().label_quality == {"exact": 1}


def test_truth_between_two_samples_is_interpolated() -> None:
    rig = Rig()
    rig.decide(2 * DECISION_NS)
    rig.truth(80 * MS, 80 * MS)
    assert rig.pairs == []
    rig.truth(120 * MS, 120 * MS)
    assert rig.pairs[0].fields["label.p_base_cube"][0] == pytest.approx(0.100)
    assert rig.stage.stats().label_quality == {"interpolated": 1}


def test_decision_whose_truth_does_not_come_is_dropped_and_counted() -> None:
    rig = Rig()
    for number in range(1, 14):
        rig.decide(number * DECISION_NS)
    assert rig.pairs == []
    assert rig.stage.stats().dropped == {"no truth (missing)": 2}
    rig.stage.reset(SKILL)
    assert rig.stage.stats().dropped["episode ended"] == 11


def test_teacher_is_asked_in_order_with_the_primitive_that_ran_until_then() -> None:
    rig = Rig()
    primitives = [Primitive.LOOK, Primitive.TRACK, Primitive.GRASP]
    for number, primitive in enumerate(primitives, start=1):
        rig.decide(number * DECISION_NS, primitive)
    for number in range(1, 4):
        rig.truth(number * DECISION_NS, number * DECISION_NS)
    assert [last for _, last in rig.labeller.asked] == [None, Primitive.LOOK, Primitive.TRACK]


def test_refused_picture_was_not_seen() -> None:
    rig = Rig()
    rig.picture(10 * MS, 20 * MS)
    rig.picture(30 * MS, 40 * MS, rejected="dark")
    rig.decide(DECISION_NS)
    rig.truth(DECISION_NS, DECISION_NS)
    assert newest(rig.pairs[0])["camera"] == pytest.approx(0.010)


def test_lost_reordered_and_repeated_samples_come_out_as_numbers() -> None:
    rig = Rig()
    for stamp_ms in (10, 12, 11, 12, 15):
        rig.joints(stamp_ms * MS, 20 * MS)
    joints = rig.stage.stats().streams["joints"]
    assert joints["lost"] == 2
    assert joints["reordered"] == 1
    assert joints["duplicates"] == 1


def test_pair_that_cannot_be_made_is_counted_and_stops_nobody() -> None:
    rig = Rig()
    shape = PairShape(tokens=(2, 3))
    stage = PairStage(rig.labeller, rig.pairs.append, shape)
    rig.stage = stage
    ref = SampleRef(Stream.CAMERA, 10 * MS, 0)
    stage.take_picture(ImageFeature(ref, CAMERA, np.zeros((0, 6), np.float32), np.zeros((4, 4), np.float32)), 20 * MS)
    rig.decide(DECISION_NS)
    rig.truth(DECISION_NS, DECISION_NS)
    assert rig.pairs == []
    (reason,) = stage.stats().dropped
    assert "tokens" in reason


def test_episode_of_the_core_loop_gives_a_pair_for_each_decision_and_the_policy_sees_no_truth() -> None:
    pairs: list[Pair] = []
    stage = make_pair_stage(pairs.append)
    decisions: list[Any] = []
    for _, trace in ticks(Arbitration.STUDENT_ALONE, off_from(10**6, 0.0), pairs=stage, ticks_max=150):
        if trace is not None and trace.decision is not None:
            decisions.append(trace.decision)
    assert len(pairs) == len(decisions) == 30
    stats = stage.stats()
    assert stats.made == 30
    assert stats.unlike == 0
    assert stats.label_quality == {"exact": 30}
    assert stats.skew_ns is not None
    assert stats.staleness_ns["camera"] >= 100 * MS
    for pair, decision in zip(pairs, decisions, strict=True):
        assert pair.decision_id == decision.action.decision_id
        assert Stream.TRUTH not in decision.age_ns
        ages = [decision.age_ns.get(stream, -1) for stream in AGES]
        expected = [age * 1e-9 if age >= 0 else -1.0 for age in ages]
        np.testing.assert_allclose(pair.fields["input.age_s"], expected, atol=1e-6)


def test_decisions_are_the_same_with_and_without_pairs() -> None:
    change = off_from(10**6, 0.0)
    stage = make_pair_stage(lambda pair: None)
    runs = []
    for pairs in (None, stage):
        traces = [
            trace.decision
            for _, trace in ticks(Arbitration.STUDENT_ALONE, change, pairs=pairs, ticks_max=100)
            if trace is not None and trace.decision is not None
        ]
        runs.append([(d.reason, d.state_hash, d.action.primitive, d.action.params.tobytes()) for d in traces])
    assert runs[0] == runs[1]


def test_stats_can_be_written_as_json() -> None:
    import json

    rig = Rig()
    rig.joints(10 * MS, 20 * MS)
    assert json.loads(json.dumps(dataclasses.asdict(rig.stage.stats())))["made"] == 0
