"""Episodes in which the student goes wrong: who then has the robot, what is recorded of it, and how they end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bridge_episodes import off_from, result_of, ticks

from tether import topics
from tether.assembly import make_imu_stage, skill_of_task
from tether.bags.writer import BagWriter
from tether.bridge.arbiter import Arbitration
from tether.check import check_bag
from tether.codec import convert, encode, sensors
from tether.contracts import (
    TICKS_PER_DECISION,
    EpisodeSpec,
    FusedState,
    ImageSample,
    ImuSample,
    JointSample,
    PolicyOutput,
    Source,
    TickDelivery,
    TickPlan,
    TruthSample,
)
from tether.event_kinds import RUN_CONFIG
from tether.ingest.stages import readings_of
from tether.lockstep import in_order
from tether.pipeline import TickTrace
from tether.rollout import EPISODE_START_NS
from tether.topics import Topic

OFF = off_from(8, 0.03)
"""From the 8th decision on the student believes the cube 3 cm beside where it is."""


def test_student_that_goes_wrong_fails_alone_and_is_saved_by_the_teacher_on_the_twin() -> None:
    alone, _ = result_of(Arbitration.STUDENT_ALONE, OFF)
    saved, traces = result_of(Arbitration.WITH_FALLBACK, OFF)
    assert not alone.success
    assert saved.success
    decisions = [trace.decision for trace in traces if trace.decision is not None]
    first = next(i for i, decision in enumerate(decisions) if "(from " in decision.reason)
    assert "0.500 > 0.150" in decisions[first].reason
    assert decisions[first].prediction_error == 0.5
    sources = {decision.action.source for decision in decisions[first:]}
    assert Source.TEACHER in sources
    assert Source.CLASSIC not in sources, "it stays wrong, so it never gets the robot back"


def test_student_that_is_well_keeps_the_robot_and_decides_as_it_does_alone() -> None:
    well = off_from(10**6, 0.0)
    alone, alone_traces = result_of(Arbitration.STUDENT_ALONE, well)
    beside, traces = result_of(Arbitration.WITH_FALLBACK, well)
    assert alone == beside
    for a, b in zip(alone_traces, traces, strict=True):
        assert a.decision is not None
        assert b.decision is not None
        assert a.decision.action.primitive is b.decision.action.primitive
        assert a.decision.action.params.tobytes() == b.decision.action.params.tobytes()
        assert b.decision.action.source is Source.CLASSIC


def test_oracle_teacher_decides_everything_and_the_policy_never_sees_the_truth() -> None:
    result, traces = result_of(Arbitration.ORACLE_TEACHER, OFF)
    assert result.success
    for trace in traces:
        assert trace.decision is not None
        assert trace.decision.action.source is Source.TEACHER
        assert "oracle teacher" in trace.decision.reason


# -- replay's check -----------------------------------------------------------------------------------------------


class Recorder:
    """A recording of a core run with everything that the graph records, the proposals included."""

    def __init__(self, arbitration: Arbitration, threshold: float | None = None) -> None:
        self.messages: list[tuple[int, Topic, Any]] = []
        self._imu = make_imu_stage("real")
        start = convert.episode_start_message(
            0, EPISODE_START_NS, EpisodeSpec("pick_moving", "real", 1), "classic", False, skill_of_task("pick_moving")
        )
        self._put(EPISODE_START_NS, topics.EPISODE_START, start)
        config = sensors.event_message(EPISODE_START_NS, "world", 0, RUN_CONFIG, "", {"arbiter": arbitration.value})
        self._put(EPISODE_START_NS, topics.EVENTS, config)

    def take(self, delivery: TickDelivery, trace: TickTrace, output: PolicyOutput | None) -> None:
        for topic, msg in (*self._sensed(delivery), *self._said(delivery, trace, output)):
            self._put(delivery.stamp_ns, topic, msg)

    def written(self, folder: Path) -> Path:
        with BagWriter(folder / "bag") as writer:
            for topic in dict.fromkeys(topic for _, topic, _ in self.messages):
                writer.add_topic(topic.name, topic.type)
            for stamp_ns, topic, message in self.messages:
                assert writer.write(topic.name, encode(message), stamp_ns)
        return folder / "bag"

    def _put(self, stamp_ns: int, topic: Topic, message: Any) -> None:
        self.messages.append((stamp_ns, topic, message))

    def _sensed(self, delivery: TickDelivery) -> Iterator[tuple[Topic, Any]]:
        for sample in delivery.samples:
            if isinstance(sample, ImuSample):
                yield topics.IMU, sensors.imu_message(sample)
            elif isinstance(sample, JointSample):
                yield topics.JOINT_STATES, sensors.joint_state_message(sample)
            elif isinstance(sample, ImageSample):
                yield topics.CAMERA_INFO, sensors.camera_info_message(sample.camera, sample.ref.stamp_ns)
                yield topics.IMAGE, sensors.image_message(sample)
            elif isinstance(sample, TruthSample):
                yield topics.TRUTH, convert.truth_message(sample, 0)
        if delivery.executed is not None:
            yield topics.EXECUTED, convert.executed_message(delivery.executed, 0)

    def _said(self, d: TickDelivery, trace: TickTrace, output: PolicyOutput | None) -> Iterator[tuple[Topic, Any]]:
        decision_id, remainder = divmod(d.tick, TICKS_PER_DECISION)
        due = [sample.ref for sample in d.samples]
        due += [] if d.executed is None else [d.executed.ref]
        plan = TickPlan(0, d.tick, d.stamp_ns, tuple(due), decision_id if remainder == 0 else None)
        yield topics.TICK_PLAN, convert.tick_plan_message(plan)
        readings = readings_of([sample for sample in d.samples if isinstance(sample, ImuSample)])
        imu = self._imu.step(0, d.tick, d.stamp_ns, readings)
        yield topics.IMU_BATCH, convert.imu_batch_message(imu)
        if trace.state is not None and trace.decision is not None and output is not None:
            yield topics.FUSED_STATE, convert.fused_state_message(trace.state, 0)
            yield topics.POLICY_OUTPUT, convert.policy_output_message(output, 0)
            yield topics.DECISION, convert.decision_message(trace.decision, 0)
        joints = [sample.ref for sample in d.samples if isinstance(sample, JointSample)]
        used = in_order([*joints, *(sample.ref for sample in imu.samples)])
        yield topics.PROPOSED, convert.proposed_message(trace.proposed, 0, d.tick, d.stamp_ns, used)
        yield topics.VERDICT, convert.verdict_message(trace.gated, 0, used)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[PolicyOutput]:
    """Every proposal that a policy stage makes."""
    from tether.policy.stage import PolicyStage

    made: list[PolicyOutput] = []
    step = PolicyStage.step

    def recorded(self: PolicyStage, state: FusedState, truth: TruthSample | None) -> PolicyOutput:
        made.append(step(self, state, truth))
        return made[-1]

    monkeypatch.setattr(PolicyStage, "step", recorded)
    return made


def unknown_error(state: FusedState) -> FusedState:
    """What the estimator of `classic` says of its predictions: nothing. Replay can only rebuild what is computed."""
    return dataclasses.replace(state, prediction_error=None)


@pytest.mark.parametrize("arbitration", [Arbitration.WITH_FALLBACK, Arbitration.ORACLE_TEACHER])
def test_check_rebuilds_every_decision_of_the_bridge_bit_for_bit(
    arbitration: Arbitration, tmp_path: Path, outputs: list[PolicyOutput]
) -> None:
    recorder = Recorder(arbitration)
    for delivery, trace in ticks(arbitration, unknown_error, ticks_max=100):
        if trace is not None:
            recorder.take(delivery, trace, outputs[-1] if trace.decision is not None else None)
    report = check_bag(recorder.written(tmp_path))
    assert report.identical, report.as_table()
    assert report.steps["opd_bridge"] == 100 // TICKS_PER_DECISION
    assert report.steps["safety_supervisor"] == 100


def test_check_names_the_bridge_where_a_recorded_decision_is_not_what_the_arbiter_ruled(
    tmp_path: Path, outputs: list[PolicyOutput]
) -> None:
    recorder = Recorder(Arbitration.WITH_FALLBACK)
    for delivery, trace in ticks(Arbitration.WITH_FALLBACK, unknown_error, ticks_max=60):
        if trace is None:
            continue
        if trace.decision is not None and trace.decision.action.decision_id == 6:
            trace = dataclasses.replace(trace, decision=dataclasses.replace(trace.decision, reason="hold: because"))
        recorder.take(delivery, trace, outputs[-1] if trace.decision is not None else None)
    difference = check_bag(recorder.written(tmp_path)).difference
    assert difference is not None
    assert (difference.stage, difference.number) == ("opd_bridge", 6)
    assert difference.fields == ("reason",)
