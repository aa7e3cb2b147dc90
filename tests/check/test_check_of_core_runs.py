"""Recordings made from the core loop, without ROS, as the graph would record them; whole, altered and incomplete."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
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
    skills,
)
from tether.bags.writer import BagWriter
from tether.check import CheckReport, check_bag
from tether.codec import convert, encode, sensors
from tether.contracts import (
    TICKS_PER_DECISION,
    Decision,
    EpisodeSpec,
    FusedState,
    HybridAction,
    ImageSample,
    ImuSample,
    JointSample,
    PolicyOutput,
    Primitive,
    TickDelivery,
    TickPlan,
    TruthSample,
)
from tether.errors import InvalidInputError
from tether.event_kinds import LOOK_HOW, MODEL_RUNTIMES
from tether.ingest.camera import CameraIngest
from tether.ingest.stages import readings_of
from tether.lockstep import in_order
from tether.models.manifest import read_manifest
from tether.pipeline import Stages, TickTrace
from tether.policy.classic import ClassicPolicy
from tether.resources import resource_path
from tether.rollout import EPISODE_START_NS, Rollout
from tether.runtimes import torch_reference
from tether.runtimes.interface import RuntimeName, refused
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


class Runtimes:
    """What nodes say of their models' runtimes, see `tether_ros.runtimes`."""

    def __init__(self, stages: Stages) -> None:
        self._stages = {"camera_ingest": stages.camera, "fusion": stages.fusion, "policy": stages.policy}
        self._said: dict[str, dict[str, str]] = {}

    def after(self, picture_ns: int, decision_ns: int) -> Iterator[Message]:
        for node, stage in self._stages.items():
            if stage.runtimes != self._said.get(node):
                self._said[node] = stage.runtimes
                since_ns = picture_ns if node == "camera_ingest" else decision_ns
                yield on_runtimes(stage.runtimes, node, since_ns=since_ns)


def recorded(policy: str, *, with_runtimes: bool = False) -> list[Message]:
    """The messages of the first ticks of an episode, in order of time."""
    spec = EpisodeSpec(TASK, PROFILE, SEED)
    oracle = policy_kit(policy).is_oracle
    start = convert.episode_start_message(0, EPISODE_START_NS, spec, policy, oracle, skill_of_task(TASK))
    messages: list[Message] = [(EPISODE_START_NS, topics.EPISODE_START, start)]
    stage = make_imu_stage(PROFILE)
    with Rollout(policy, TASK, PROFILE) as rollout:
        runtimes = Runtimes(rollout._pipeline._s)
        if with_runtimes:
            messages += runtimes.after(EPISODE_START_NS, EPISODE_START_NS)
        for delivery, trace in rollout.ticks(SEED):
            if trace is None or delivery.tick == TICKS:
                break
            readings = readings_of([sample for sample in delivery.samples if isinstance(sample, ImuSample)])
            imu = stage.step(0, delivery.tick, delivery.stamp_ns, readings)
            messages += [(delivery.stamp_ns, *named) for named in sensed(delivery)]
            messages += [(delivery.stamp_ns, *named) for named in said(delivery, trace, imu)]
            if with_runtimes:
                pictures = [sample.ref.stamp_ns for sample in delivery.samples if isinstance(sample, ImageSample)]
                messages += runtimes.after(pictures[0] if pictures else 0, delivery.stamp_ns)
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


def test_run_that_asked_for_how_hard_to_look_is_rebuilt_from_what_was_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Message] = []
    decide, decided = ClassicPolicy.decide, CameraIngest.decided

    def looking(policy: ClassicPolicy, state: FusedState, truth: Any) -> HybridAction:
        """Now hard, now as ever, whatever else it had in mind."""
        values = {"image_size": 96.0, "confidence": 0.1} if state.decision_id % 4 < 2 else {}
        action = decide(policy, state, truth)
        return replace(action, primitive=Primitive.LOOK, params=skills().clipped(Primitive.LOOK, **values))

    def saying(camera: CameraIngest, action: HybridAction) -> Any:
        answer = decided(camera, action)
        if answer.changed:
            data = {"since_ns": answer.since_ns, **asdict(answer.how)}
            event = sensors.event_message(action.stamp_ns, "camera_ingest", 0, LOOK_HOW, "asked", data)
            events.append((action.stamp_ns, topics.EVENTS, event))
        return answer

    monkeypatch.setattr(ClassicPolicy, "decide", looking)
    monkeypatch.setattr(CameraIngest, "decided", saying)
    messages = recorded("classic")
    assert len(events) >= 4
    report = checked(tmp_path, [*messages, *events])
    assert report.identical, report.as_table()
    difference = checked(tmp_path / "unsaid", messages).difference
    assert difference is not None, "it was looked at otherwise than eyes do by themselves"
    assert difference.stage == "fusion"


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


def on_runtimes(runtimes: Any, node: str = "policy", **since: int) -> Message:
    event = sensors.event_message(EPISODE_START_NS, node, 0, MODEL_RUNTIMES, "", {"runtimes": runtimes, **since})
    return EPISODE_START_NS, topics.EVENTS, event


@pytest.mark.parametrize("told", [[], "onnxruntime", None, {"5" * 64: 7}])
def test_runtimes_that_are_none_are_passed_over(run: list[Message], tmp_path: Path, told: Any) -> None:
    assert checked(tmp_path, [*run, on_runtimes(told)]).identical


@pytest.mark.parametrize(
    ("ran", "named"),
    [
        (["tensorrt 10.3.0 Some GPU"], "tensorrt is not here"),
        (["abacus 1.0 wood"], "abacus"),
        (["onnxruntime 1.20.0 cpu", "tensorrt 10.3.0 Some GPU"], "tensorrt is not here"),
    ],
    ids=["missing", "unknown", "one of two missing"],
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


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ([("torch 2 cpu", "policy", {"since_ns": 0}), ("onnxruntime 1 cpu", "policy", {})], "not from which stamp on"),
        (
            [("torch 2 cpu", "policy", {"since_ns": 0}), ("onnxruntime 1 cpu", "opd_bridge", {"since_ns": 9})],
            "in opd_bridge, policy",
        ),
    ],
    ids=["no stamp", "two nodes"],
)
def test_a_fallback_is_refused_where_nobody_says_which_steps_ran_on_what(
    run: list[Message], tmp_path: Path, told: list[tuple[str, str, dict[str, int]]], named: str
) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    events = [on_runtimes({"5" * 64: label}, node, **since) for label, node, since in told]
    with pytest.raises(InvalidInputError, match=named):
        checked(tmp_path, [*run, *events])


RUNS_BEFORE_TORCH_FAILS = {"eyes": 4, "student-fusion": 5, "student-policy": 8}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_that_fell_back_is_checked_step_by_step_on_what_ran_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(RUNTIME_VARIABLE, "torch")
    kinds = student_models()
    for sha256 in kinds:
        remember(key(sha256, RuntimeName.TORCH, 1), Trial(RuntimeName.TORCH))
    with monkeypatch.context() as during_the_run:
        make_torch_fail(during_the_run)
        messages = recorded("student", with_runtimes=True)
    monkeypatch.delenv(RUNTIME_VARIABLE)

    told = [m for _, topic, m in messages if topic is topics.EVENTS]
    assert len(told) == 6, "each of three models at the start and after its fallback"
    labels = [m.runtime.split()[0] for _, topic, m in messages if topic is topics.DECISION]
    assert labels == ["torch"] * 8 + ["onnxruntime"] * (TICKS // TICKS_PER_DECISION - 8)
    report = checked(tmp_path, messages)
    assert report.identical, report.as_table()

    def too_late(event: Any) -> Any:
        data = sensors.event_data(event)
        return with_fields(event, data_json=json.dumps({**data, "since_ns": data["since_ns"] + 50_000_000}))

    where = next(i for i, event in enumerate(told) if event.node == "fusion" and "onnx" in event.data_json)
    difference = checked(tmp_path / "late", altered(messages, topics.EVENTS, where, too_late)).difference
    assert difference is not None
    assert (difference.stage, difference.number) == ("fusion", 5)


def student_models() -> dict[str, str]:
    """SHA-256 → kind of the student's three models."""
    folders = [resource_path("models", name) for name in ("eyes", "student/fusion", "student/policy")]
    manifests = [read_manifest(folder) for folder in folders]
    return {manifest.sha256: manifest.kind for manifest in manifests}


def make_torch_fail(patch: pytest.MonkeyPatch) -> None:
    """Let torch compute each of the student's models so many times, and fail from then on."""
    runs: Counter[str] = Counter()
    whole = torch_reference._PreparedTorch.run

    def run(prepared: Any) -> None:
        kind = prepared._kind
        if runs[kind] == RUNS_BEFORE_TORCH_FAILS[kind]:
            raise refused("torch", "the device is gone", "a run", f"model {kind}")
        runs[kind] += 1
        whole(prepared)

    patch.setattr(torch_reference._PreparedTorch, "run", run)
