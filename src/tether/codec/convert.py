"""Contracts to messages and back. Messages are `rosbags` classes; field names are those of the .msg files.

What is not finite or does not fit is refused on the way back with ValueError and the field's name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tether.codec.store import message
from tether.codec.values import finite, finite_singles, floats, of_length
from tether.contracts import (
    CameraModel,
    Command,
    Decision,
    EpisodeResult,
    EpisodeSpec,
    Estimate,
    ExecutedCommand,
    FusedState,
    GateOutput,
    HybridAction,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    PolicyOutput,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    TickPlan,
    TruthSample,
)

NO_DECISION = -1
"""Decision id of a command that reached a world by standard messages, which do not carry it."""
_EMPTY_F64 = np.zeros(0)
_EMPTY_F32 = np.zeros(0, np.float32)
_NO_REF = SampleRef(Stream.JOINTS, 0, 0)


class SteadyTimes(NamedTuple):
    """Readings of the steady clock around fusion, ns: newest sample arrived, fusion began, fusion was done."""

    arrival_ns: int
    start_ns: int
    end_ns: int


LOCKSTEP_TIMES = SteadyTimes(0, 0, 0)
"""In lockstep the wall has no say, and a recording is the same each time."""


def to_time(stamp_ns: int) -> Any:
    """builtin_interfaces/Time from nanoseconds."""
    return message("builtin_interfaces/msg/Time")(*divmod(stamp_ns, 1_000_000_000))


def to_ns(time: Any) -> int:
    """Nanoseconds from builtin_interfaces/Time."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


def ref_message(ref: SampleRef) -> Any:
    """tether_msgs/SampleRef."""
    return message("tether_msgs/msg/SampleRef")(ref.stream.value, to_time(ref.stamp_ns), ref.sequence)


def ref_from(msg: Any) -> SampleRef:
    """From tether_msgs/SampleRef; ValueError for a stream that is not known."""
    return SampleRef(Stream(msg.stream), to_ns(msg.stamp), int(msg.sequence))


def refs_message(refs: Iterable[SampleRef]) -> list[Any]:
    """A list of tether_msgs/SampleRef."""
    return [ref_message(ref) for ref in refs]


def refs_from(messages: Iterable[Any]) -> tuple[SampleRef, ...]:
    """From a list of tether_msgs/SampleRef."""
    return tuple(ref_from(m) for m in messages)


def _ages_message(ages: Mapping[Stream, int]) -> list[Any]:
    kind = message("tether_msgs/msg/ModalityAge")
    return [kind(stream.value, age) for stream, age in sorted(ages.items())]


def _ages_from(messages: Iterable[Any]) -> dict[Stream, int]:
    return {Stream(m.modality): int(m.age_ns) for m in messages}


def tick_plan_message(plan: TickPlan) -> Any:
    """tether_msgs/TickPlan."""
    decision = plan.decision_id if plan.decision_id is not None else 0
    return message("tether_msgs/msg/TickPlan")(
        to_time(plan.stamp_ns),
        plan.episode,
        plan.tick,
        plan.decision_id is not None,
        decision,
        refs_message(plan.due),
    )


def tick_plan_from(msg: Any) -> TickPlan:
    """From tether_msgs/TickPlan."""
    decision = int(msg.decision_id) if msg.is_decision else None
    return TickPlan(int(msg.episode), int(msg.tick), to_ns(msg.stamp), refs_from(msg.due), decision)


def skill_message(skill: SkillContext) -> Any:
    """tether_msgs/SkillContext."""
    return message("tether_msgs/msg/SkillContext")(
        skill.skill_id,
        skill.name,
        skill.params,
        skill.step_k,
        skill.step_n,
        np.asarray(skill.primitive_mask, np.bool_),
    )


def skill_from(msg: Any) -> SkillContext:
    """From tether_msgs/SkillContext; ValueError for a mask of another number of primitives."""
    mask = np.asarray(msg.primitive_mask, np.bool_)
    if len(mask) != len(Primitive):
        raise ValueError(f"primitive_mask: {len(mask)} entries, expected {len(Primitive)}, one for each primitive")
    params = finite("params", msg.params)
    return SkillContext(int(msg.skill_id), msg.name, params, int(msg.step_k), int(msg.step_n), mask)


def episode_start_message(
    episode: int, stamp_ns: int, spec: EpisodeSpec, policy: str, oracle: bool, skill: SkillContext
) -> Any:
    """tether_msgs/EpisodeStart."""
    return message("tether_msgs/msg/EpisodeStart")(
        to_time(stamp_ns), episode, spec.seed, spec.task, spec.profile, policy, oracle, skill_message(skill)
    )


def episode_spec_from(msg: Any) -> EpisodeSpec:
    """The spec in a tether_msgs/EpisodeStart or EpisodeEnd."""
    return EpisodeSpec(msg.task, msg.profile, int(msg.seed))


def episode_end_message(episode: int, stamp_ns: int, result: EpisodeResult) -> Any:
    """tether_msgs/EpisodeEnd."""
    spec = result.spec
    return message("tether_msgs/msg/EpisodeEnd")(
        to_time(stamp_ns),
        episode,
        spec.seed,
        spec.task,
        spec.profile,
        result.success,
        result.first_attempt_success,
        result.attempts,
        result.duration_s,
        result.failure or "",
    )


def episode_result_from(msg: Any) -> EpisodeResult:
    """From tether_msgs/EpisodeEnd."""
    return EpisodeResult(
        episode_spec_from(msg),
        bool(msg.success),
        bool(msg.first_attempt_success),
        int(msg.attempts),
        float(msg.duration_s),
        msg.failure or None,
    )


def imu_batch_message(batch: ImuBatch) -> Any:
    """tether_msgs/ImuBatch."""
    gyro = [s.angular_velocity_rad_s for s in batch.samples]
    accel = [s.linear_acceleration_m_s2 for s in batch.samples]
    return message("tether_msgs/msg/ImuBatch")(
        to_time(batch.stamp_ns),
        batch.episode,
        batch.tick,
        refs_message(s.ref for s in batch.samples),
        np.concatenate(gyro) if gyro else _EMPTY_F64,
        np.concatenate(accel) if accel else _EMPTY_F64,
        batch.token is not None,
        _EMPTY_F32 if batch.token is None else batch.token,
    )


def imu_batch_from(msg: Any) -> ImuBatch:
    """From tether_msgs/ImuBatch."""
    gyro = finite("angular_velocity", msg.angular_velocity).reshape(-1, 3)
    accel = finite("linear_acceleration", msg.linear_acceleration).reshape(-1, 3)
    refs = refs_from(msg.samples)
    samples = tuple(ImuSample(r, g, a) for r, g, a in zip(refs, gyro, accel, strict=True))
    token = finite_singles("token", msg.token) if msg.has_token else None
    return ImuBatch(int(msg.episode), int(msg.tick), to_ns(msg.stamp), samples, token)


def image_feature_message(feature: ImageFeature, episode: int, latency_ns: Mapping[str, int]) -> Any:
    """tether_msgs/ImageFeature; latency_ns may hold decode, preprocess and encode."""
    camera = feature.camera
    tokens = feature.tokens if feature.tokens is not None else np.zeros((0, 0), np.float32)
    return message("tether_msgs/msg/ImageFeature")(
        ref_message(feature.ref),
        episode,
        feature.rejected is None,
        feature.rejected or "",
        camera.frame_id if camera else "",
        camera.width if camera else 0,
        camera.height if camera else 0,
        camera.k.reshape(9) if camera else np.zeros(9),
        np.ascontiguousarray(feature.detections, np.float32).reshape(-1),
        feature.tokens is not None,
        tokens.shape[0],
        tokens.shape[1],
        np.ascontiguousarray(tokens, np.float32).reshape(-1),
        latency_ns.get("decode", 0),
        latency_ns.get("preprocess", 0),
        latency_ns.get("encode", 0),
    )


def image_feature_from(msg: Any) -> ImageFeature:
    """From tether_msgs/ImageFeature."""
    camera = None
    if msg.width:
        camera = CameraModel(int(msg.width), int(msg.height), finite("k", msg.k).reshape(3, 3), msg.frame_id)
    tokens = None
    if msg.has_tokens:
        tokens = finite_singles("tokens", msg.tokens).reshape(int(msg.token_count), int(msg.token_dim))
    detections = finite_singles("detections", msg.detections).reshape(-1, 6)
    return ImageFeature(ref_from(msg.sample), camera, detections, tokens, None if msg.accepted else msg.rejection)


def estimate_message(estimate: Estimate) -> Any:
    """tether_msgs/Estimate."""
    return message("tether_msgs/msg/Estimate")(
        to_time(estimate.stamp_ns),
        estimate.valid,
        estimate.p_base_cube,
        estimate.v_base_cube,
        estimate.a_base_cube,
        estimate.sigma_m,
    )


def estimate_from(msg: Any) -> Estimate:
    """From tether_msgs/Estimate; only the error may be infinite, where nothing is known yet."""
    sigma_m = float(msg.sigma_m)
    if math.isnan(sigma_m):
        raise ValueError("sigma_m is nan, expected metres or infinity")
    return Estimate(
        to_ns(msg.stamp),
        finite("position", msg.position),
        finite("velocity", msg.velocity),
        finite("acceleration", msg.acceleration),
        sigma_m,
        bool(msg.valid),
    )


def fused_state_message(state: FusedState, episode: int, steady: SteadyTimes = LOCKSTEP_TIMES) -> Any:
    """tether_msgs/FusedState."""
    joints = state.joints
    return message("tether_msgs/msg/FusedState")(
        to_time(state.stamp_ns),
        episode,
        state.decision_id,
        refs_message(state.used),
        _ages_message(state.age_ns),
        estimate_message(state.estimate),
        joints is not None,
        ref_message(joints.ref if joints else _NO_REF),
        list(joints.names) if joints else [],
        joints.position if joints else _EMPTY_F64,
        joints.velocity if joints else _EMPTY_F64,
        np.ascontiguousarray(state.imu_window).reshape(-1),
        np.ascontiguousarray(state.detections, np.float32).reshape(-1),
        np.asarray(state.features, np.float32),
        _EMPTY_F32,
        [],
        skill_message(state.skill),
        *steady,
    )


def fused_state_from(msg: Any) -> FusedState:
    """From tether_msgs/FusedState."""
    joints = None
    if msg.has_joints:
        joints = JointSample(
            ref_from(msg.joint_sample),
            tuple(msg.joint_names),
            of_length("joint_position", finite("joint_position", msg.joint_position), msg.joint_names),
            of_length("joint_velocity", finite("joint_velocity", msg.joint_velocity), msg.joint_names),
        )
    return FusedState(
        int(msg.decision_id),
        to_ns(msg.stamp),
        refs_from(msg.used),
        _ages_from(msg.ages),
        estimate_from(msg.estimate),
        joints,
        finite("imu_window", msg.imu_window).reshape(6, -1),
        finite_singles("detections", msg.detections).reshape(-1, 6),
        finite_singles("features", msg.features),
        skill_from(msg.skill),
    )


def action_message(action: HybridAction, episode: int) -> Any:
    """tether_msgs/HybridAction."""
    return message("tether_msgs/msg/HybridAction")(
        to_time(action.stamp_ns),
        episode,
        action.decision_id,
        int(action.primitive),
        action.primitive.name.lower(),
        action.params,
        estimate_message(action.estimate),
        action.source.value,
    )


def action_from(msg: Any) -> HybridAction:
    """From tether_msgs/HybridAction; ValueError for a primitive or source that is not known."""
    return HybridAction(
        int(msg.decision_id),
        to_ns(msg.stamp),
        Primitive(int(msg.primitive)),
        finite("params", msg.params),
        estimate_from(msg.estimate),
        Source(msg.source),
    )


def policy_output_message(output: PolicyOutput, episode: int) -> Any:
    """tether_msgs/PolicyOutput."""
    return message("tether_msgs/msg/PolicyOutput")(
        action_message(output.action, episode),
        refs_message(output.used),
        _ages_message(output.age_ns),
        output.state_hash,
        output.rng_hash,
        output.runtime,
        output.threads,
        *_latency_fields(output.latency_ns),
    )


def policy_output_from(msg: Any) -> PolicyOutput:
    """From tether_msgs/PolicyOutput."""
    return PolicyOutput(
        action_from(msg.action),
        refs_from(msg.used),
        _ages_from(msg.ages),
        msg.state_hash,
        msg.rng_hash,
        msg.runtime,
        int(msg.threads),
        _latency_from(msg),
    )


def decision_message(decision: Decision, episode: int) -> Any:
    """tether_msgs/Decision."""
    error = decision.prediction_error
    return message("tether_msgs/msg/Decision")(
        action_message(decision.action, episode),
        refs_message(decision.used),
        _ages_message(decision.age_ns),
        decision.reason,
        error is not None,
        0.0 if error is None else error,
        decision.state_hash,
        decision.rng_hash,
        decision.runtime,
        decision.threads,
        *_latency_fields(decision.latency_ns),
    )


def decision_from(msg: Any) -> Decision:
    """From tether_msgs/Decision."""
    return Decision(
        action_from(msg.action),
        refs_from(msg.used),
        _ages_from(msg.ages),
        msg.reason,
        msg.state_hash,
        msg.rng_hash,
        msg.runtime,
        int(msg.threads),
        float(msg.prediction_error) if msg.has_prediction_error else None,
        _latency_from(msg),
    )


def proposed_message(
    command: Command | None, episode: int, tick: int, stamp_ns: int, used: Iterable[SampleRef], steady_ns: int = 0
) -> Any:
    """tether_msgs/ProposedCommand; command None says that there is nothing to propose at this tick."""
    return message("tether_msgs/msg/ProposedCommand")(
        to_time(stamp_ns),
        episode,
        tick,
        command.decision_id if command else 0,
        command.source.value if command else "",
        command is not None,
        list(command.joint_names) if command else [],
        command.position if command else _EMPTY_F64,
        command.velocity if command else _EMPTY_F64,
        command.base_twist if command else np.zeros(3),
        refs_message(used),
        steady_ns,
    )


def proposed_from(msg: Any) -> Command | None:
    """The command in a tether_msgs/ProposedCommand, None where it proposes nothing.

    Its numbers are not judged here: the gate must see a bad command to stop on it.
    """
    if not msg.has_command:
        return None
    return Command(
        int(msg.tick),
        to_ns(msg.stamp),
        int(msg.decision_id),
        Source(msg.source),
        tuple(msg.joint_names),
        floats(msg.position),
        floats(msg.velocity),
        floats(msg.base_twist),
    )


def executed_message(executed: ExecutedCommand, episode: int) -> Any:
    """tether_msgs/ExecutedCommand."""
    command = executed.command
    return message("tether_msgs/msg/ExecutedCommand")(
        ref_message(executed.ref),
        episode,
        command.tick,
        list(command.joint_names),
        command.position,
        command.velocity,
        command.base_twist,
        executed.watchdog_stop,
    )


def executed_from(msg: Any) -> ExecutedCommand:
    """From tether_msgs/ExecutedCommand."""
    ref = ref_from(msg.sample)
    command = Command(
        int(msg.tick),
        ref.stamp_ns,
        NO_DECISION,
        Source.GATE,
        tuple(msg.joint_names),
        floats(msg.position),
        floats(msg.velocity),
        floats(msg.base_twist),
    )
    return ExecutedCommand(ref, command, bool(msg.watchdog_stop))


def verdict_message(output: GateOutput, episode: int, used: Iterable[SampleRef], steady_ns: int = 0) -> Any:
    """tether_msgs/SafetyVerdict."""
    command, age = output.command, output.command_age_ns
    return message("tether_msgs/msg/SafetyVerdict")(
        to_time(command.stamp_ns),
        episode,
        command.tick,
        command.decision_id,
        int(output.mode),
        output.scale,
        [v.check for v in output.verdicts],
        np.array([v.scale for v in output.verdicts]),
        [v.reason for v in output.verdicts],
        age is not None,
        0 if age is None else age,
        refs_message(used),
        steady_ns,
        INIT=0,
        ARMED=1,
        ACTIVE=2,
        DEGRADED=3,
        SAFE=4,
        SLOW=5,
        STOP=6,
    )


def truth_message(truth: TruthSample, episode: int) -> Any:
    """tether_msgs/WorldTruth."""
    return message("tether_msgs/msg/WorldTruth")(
        ref_message(truth.ref),
        episode,
        truth.p_base_cube,
        truth.v_base_cube,
        truth.p_world_base,
        truth.base_twist,
        truth.joint_position,
        truth.joint_velocity,
        truth.held,
        truth.cube_height_m,
    )


def truth_from(msg: Any) -> TruthSample:
    """From tether_msgs/WorldTruth."""
    return TruthSample(
        ref_from(msg.sample),
        finite("p_base_cube", msg.p_base_cube),
        finite("v_base_cube", msg.v_base_cube),
        finite("p_world_base", msg.p_world_base),
        finite("base_twist", msg.base_twist),
        finite("joint_position", msg.joint_position),
        finite("joint_velocity", msg.joint_velocity),
        bool(msg.held),
        float(msg.cube_height_m),
    )


def _latency_fields(latency_ns: Mapping[str, int]) -> tuple[list[str], Any]:
    return list(latency_ns), np.array(list(latency_ns.values()), np.int64)


def _latency_from(msg: Any) -> dict[str, int]:
    return {stage: int(ns) for stage, ns in zip(msg.latency_stages, msg.latency_ns, strict=True)}
