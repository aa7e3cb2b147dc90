"""Recordings made from the core loop, without ROS, as the graph would record them; whole, altered and incomplete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether import topics
from tether.assembly import (
    make_camera_ingest,
    make_fusion_stage,
    make_imu_stage,
    make_policy_stage,
    policy_kit,
    skill_of_task,
)
from tether.bags.writer import BagWriter
from tether.check import CheckReport, check_bag
from tether.codec import convert, encode, sensors
from tether.contracts import (
    TICKS_PER_DECISION,
    Decision,
    EpisodeSpec,
    ImageSample,
    ImuSample,
    JointSample,
    PolicyOutput,
    TickDelivery,
    TickPlan,
    TruthSample,
)
from tether.errors import InvalidInputError
from tether.event_kinds import MODEL_RUNTIMES
from tether.ingest.stages import readings_of
from tether.lockstep import in_order
from tether.pipeline import TickTrace
from tether.rollout import EPISODE_START_NS, Rollout
from tether.runtimes.interface import RuntimeName
from tether.runtimes.memory import Trial, key, remember
from tether.runtimes.selection import RUNTIME_VARIABLE
from tether.topics import Topic

POLICY, TASK, PROFILE, SEED, TICKS = "scripted", "pick_moving", "real", 3, 60

Message = tuple[int, Topic, Any]


def output_of(decision: Decision) -> PolicyOutput:
    d = decision
    return PolicyOutput(d.action, d.used, d.age_ns, d.state_hash, d.rng_hash, d.runtime, d.threads)


def sensed(delivery: TickDelivery) -> Iterator[tuple[Topic, Any]]:
    for sample in delivery.samples:
        if isinstance(sample, ImageSample):
            assert sample.camera is not None
            yield topics.CAMERA_INFO, sensors.camera_info_message(sample.camera, sample.ref.stamp_ns)
            yield topics.IMAGE, sensors.image_message(sample)
        elif isinstance(sample, ImuSample):
            yield topics.IMU, sensors.imu_message(sample)
        elif isinstance(sample, JointSample):
            yield topics.JOINT_STATES, sensors.joint_state_message(sample)
        elif isinstance(sample, TruthSample):
            yield topics.TRUTH, convert.truth_message(sample, 0)
    if delivery.executed is not None:
        yield topics.EXECUTED, convert.executed_message(delivery.executed, 0)


def said(delivery: TickDelivery, trace: TickTrace, imu: Any) -> Iterator[tuple[Topic, Any]]:
    now_ns, tick = delivery.stamp_ns, delivery.tick
    decision_id, remainder = divmod(tick, TICKS_PER_DECISION)
    due = [sample.ref for sample in delivery.samples]
    due += [] if delivery.executed is None else [delivery.executed.ref]
    plan = TickPlan(0, tick, now_ns, tuple(due), decision_id if remainder == 0 else None)
    yield topics.TICK_PLAN, convert.tick_plan_message(plan)
    yield topics.IMU_BATCH, convert.imu_batch_message(imu)
    if trace.state is not None and trace.decision is not None:
        yield topics.FUSED_STATE, convert.fused_state_message(trace.state, 0)
        yield topics.POLICY_OUTPUT, convert.policy_output_message(output_of(trace.decision), 0)
        yield topics.DECISION, convert.decision_message(trace.decision, 0)
    joints = [sample.ref for sample in delivery.samples if isinstance(sample, JointSample)]
    used = in_order([*joints, *(sample.ref for sample in imu.samples)])
    yield topics.PROPOSED, convert.proposed_message(trace.proposed, 0, tick, now_ns, used)
    yield topics.VERDICT, convert.verdict_message(trace.gated, 0, used)


@pytest.fixture(scope="module")
def run() -> list[Message]:
    return recorded(POLICY)


def recorded(policy: str) -> list[Message]:
    """The messages of the first ticks of an episode, in order of time."""
    spec = EpisodeSpec(TASK, PROFILE, SEED)
    oracle = policy_kit(policy).is_oracle
    start = convert.episode_start_message(0, EPISODE_START_NS, spec, policy, oracle, skill_of_task(TASK))
    messages: list[Message] = [(EPISODE_START_NS, topics.EPISODE_START, start)]
    stage = make_imu_stage(PROFILE)
    with Rollout(policy, TASK, PROFILE) as rollout:
        for delivery, trace in rollout.ticks(SEED):
            if trace is None or delivery.tick == TICKS:
                break
            readings = readings_of([sample for sample in delivery.samples if isinstance(sample, ImuSample)])
            imu = stage.step(0, delivery.tick, delivery.stamp_ns, readings)
            messages += [(delivery.stamp_ns, *named) for named in sensed(delivery)]
            messages += [(delivery.stamp_ns, *named) for named in said(delivery, trace, imu)]
    return messages


def checked(folder: Path, messages: list[Message]) -> CheckReport:
    with BagWriter(folder / "bag") as writer:
        for topic in dict.fromkeys(topic for _, topic, _ in messages):
            writer.add_topic(topic.name, topic.type)
        for stamp_ns, topic, message in messages:
            assert writer.write(topic.name, encode(message), stamp_ns)
    return check_bag(folder / "bag")


def altered(messages: list[Message], topic: Topic, number: int, change: Callable[[Any], Any]) -> list[Message]:
    """A copy in which the message `number` of `topic` is another."""
    places = [i for i, (_, t, _) in enumerate(messages) if t is topic]
    stamp_ns, _, message = messages[places[number]]
    changed = list(messages)
    changed[places[number]] = (stamp_ns, topic, change(message))
    return changed


def with_fields(message: Any, **fields: Any) -> Any:
    """A message with other fields; constants of its type are kept."""
    values = {name: getattr(message, name) for name in message.__dataclass_fields__ if not name.startswith("__")}
    return type(message)(**{**values, **fields})


def test_recording_of_the_core_loop_is_identical(run: list[Message], tmp_path: Path) -> None:
    report = checked(tmp_path, run)
    assert report.identical, report.as_table()
    decisions = TICKS // TICKS_PER_DECISION
    assert report.steps == {
        "fusion": decisions,
        "policy": decisions,
        "opd_bridge": decisions,
        "primitive_executor": TICKS,
        "safety_supervisor": TICKS,
    }


def test_order_in_the_bag_plays_no_part(run: list[Message], tmp_path: Path) -> None:
    at_once = [(EPISODE_START_NS, topic, message) for _, topic, message in reversed(run)]
    assert checked(tmp_path, at_once).identical


def test_altered_imu_sample_is_named(run: list[Message], tmp_path: Path) -> None:
    def faster(message: Any) -> Any:
        w = message.angular_velocity
        return with_fields(message, angular_velocity=type(w)(w.x, w.y, float(np.nextafter(w.z, 1.0))))

    difference = checked(tmp_path, altered(run, topics.IMU, 20, faster)).difference
    assert difference is not None
    assert (difference.stage, difference.modality) == ("fusion", "imu")


def test_altered_joint_sample_is_named_where_it_was_fused(run: list[Message], tmp_path: Path) -> None:
    def bent(message: Any) -> Any:
        return with_fields(message, position=np.nextafter(message.position, 9.0))

    fused = [message for _, topic, message in run if topic is topics.FUSED_STATE]
    stamps = [convert.to_ns(m.header.stamp) for _, topic, m in run if topic is topics.JOINT_STATES]
    number = stamps.index(convert.to_ns(fused[3].joint_sample.stamp))
    difference = checked(tmp_path, altered(run, topics.JOINT_STATES, number, bent)).difference
    assert difference is not None
    assert (difference.stage, difference.number, difference.modality) == ("fusion", 3, "joints")


def test_altered_truth_is_named(run: list[Message], tmp_path: Path) -> None:
    def moved(message: Any) -> Any:
        return with_fields(message, p_base_cube=message.p_base_cube + 1e-9)

    difference = checked(tmp_path, altered(run, topics.TRUTH, 4, moved)).difference
    assert difference is not None
    assert (difference.stage, difference.number, difference.modality) == ("policy", 4, "truth")


def test_sample_that_is_not_in_the_bag_is_named_by_its_stamp(run: list[Message], tmp_path: Path) -> None:
    lost = [i for i, (_, topic, _) in enumerate(run) if topic is topics.IMU][8]
    stamp_ns = convert.to_ns(run[lost][2].header.stamp)
    difference = checked(tmp_path, run[:lost] + run[lost + 1 :]).difference
    assert difference is not None
    assert difference.modality == "imu"
    assert str(stamp_ns) in difference.detail


def test_altered_record_of_a_decision_is_no_fault_of_a_modality(run: list[Message], tmp_path: Path) -> None:
    def other(message: Any) -> Any:
        return with_fields(message, reason="somebody else's")

    difference = checked(tmp_path, altered(run, topics.DECISION, 6, other)).difference
    assert difference is not None
    assert (difference.stage, difference.number, difference.fields) == ("opd_bridge", 6, ("reason",))
    assert difference.modality == "none"


def test_bag_of_sensors_alone_is_refused_with_what_is_missing(run: list[Message], tmp_path: Path) -> None:
    alone = [message for message in run if message[1] in (topics.IMU, topics.JOINT_STATES)]
    with pytest.raises(InvalidInputError, match=topics.EPISODE_START.name):
        checked(tmp_path, alone)


def test_joint_states_in_another_order_are_no_difference_to_the_stages(run: list[Message], tmp_path: Path) -> None:
    def turned(message: Any) -> Any:
        name, position, velocity = message.name[::-1], message.position[::-1].copy(), message.velocity[::-1].copy()
        return with_fields(message, name=name, position=position, velocity=velocity)

    messages = [(ns, t, turned(m) if t is topics.JOINT_STATES else m) for ns, t, m in run]
    assert checked(tmp_path, messages).identical


def on_runtimes(runtimes: Any) -> Message:
    event = sensors.event_message(EPISODE_START_NS, "policy", 0, MODEL_RUNTIMES, "", {"runtimes": runtimes})
    return EPISODE_START_NS, topics.EVENTS, event


@pytest.mark.parametrize("told", [[], "onnxruntime", None, {"5" * 64: 7}])
def test_runtimes_that_are_none_are_passed_over(run: list[Message], tmp_path: Path, told: Any) -> None:
    assert checked(tmp_path, [*run, on_runtimes(told)]).identical


@pytest.mark.parametrize(
    ("ran", "named"),
    [
        (["tensorrt 10.3.0 Some GPU"], "tensorrt is not here"),
        (["abacus 1.0 wood"], "abacus"),
        (["openvino 2026.4.1 cpu", "onnxruntime 1.20.0 cpu"], "openvino and then onnxruntime"),
    ],
    ids=["missing", "unknown", "fell back"],
)
def test_a_runtime_that_cannot_be_taken_again_is_named_before_anything_is_rebuilt(
    run: list[Message], tmp_path: Path, ran: list[str], named: str
) -> None:
    if find_spec("tensorrt") is not None:
        pytest.skip("tensorrt is here: what is missing cannot be shown")
    with pytest.raises(InvalidInputError, match=named):
        checked(tmp_path, [*run, *(on_runtimes({"5" * 64: label}) for label in ran)])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_student_is_checked_on_the_runtime_that_its_recording_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stages = (make_camera_ingest("student"), make_fusion_stage("student"), make_policy_stage("student"))
    models = {sha256: runtime for stage in stages for sha256, runtime in stage.runtimes.items()}
    assert len(models) == 3
    for sha256 in models:
        remember(key(sha256, RuntimeName.TORCH, 1), Trial(RuntimeName.TORCH))
    monkeypatch.setenv(RUNTIME_VARIABLE, "torch")
    torch_label = make_policy_stage("student").runtime
    messages = recorded("student")
    monkeypatch.delenv(RUNTIME_VARIABLE)

    report = checked(tmp_path, [*messages, on_runtimes(dict.fromkeys(models, torch_label))])
    assert report.identical, report.as_table()
    assert report.runtime == torch_label
    assert torch_label.startswith("torch ")
    difference = checked(tmp_path / "unsaid", messages).difference
    assert difference is not None
    assert difference.stage == "fusion"
