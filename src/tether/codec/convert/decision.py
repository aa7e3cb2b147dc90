"""From the fused state to the gate: estimates, actions, decisions, commands, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tether.codec.convert.basics import (
    ages_from,
    ages_message,
    latency_fields,
    latency_from,
    ref_from,
    ref_message,
    refs_from,
    refs_message,
    to_ns,
    to_time,
)
from tether.codec.convert.world import skill_from, skill_message
from tether.codec.store import message
from tether.codec.values import finite, finite_singles, floats, of_length
from tether.contracts import (
    Command,
    Decision,
    Estimate,
    FusedState,
    GateOutput,
    HybridAction,
    JointSample,
    PolicyOutput,
    Primitive,
    SampleRef,
    Source,
    Stream,
)

_EMPTY_F64 = np.zeros(0)
_NO_REF = SampleRef(Stream.JOINTS, 0, 0)


class SteadyTimes(NamedTuple):
    """Readings of the steady clock around fusion, ns: newest sample arrived, fusion began, fusion was done."""

    arrival_ns: int
    start_ns: int
    end_ns: int


LOCKSTEP_TIMES = SteadyTimes(0, 0, 0)
"""In lockstep the wall has no say, and a recording is the same each time."""


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
        ages_message(state.age_ns),
        estimate_message(state.estimate),
        joints is not None,
        ref_message(joints.ref if joints else _NO_REF),
        list(joints.names) if joints else [],
        joints.position if joints else _EMPTY_F64,
        joints.velocity if joints else _EMPTY_F64,
        np.ascontiguousarray(state.imu_window).reshape(-1),
        np.ascontiguousarray(state.detections, np.float32).reshape(-1),
        np.asarray(state.features, np.float32),
        np.array(list(state.attention.values()), np.float32),
        list(state.attention),
        state.prediction_error is not None,
        0.0 if state.prediction_error is None else state.prediction_error,
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
        ages_from(msg.ages),
        estimate_from(msg.estimate),
        joints,
        finite("imu_window", msg.imu_window).reshape(6, -1),
        finite_singles("detections", msg.detections).reshape(-1, 6),
        finite_singles("features", msg.features),
        skill_from(msg.skill),
        _attention_from(msg),
        _prediction_error_from(msg),
    )


def _prediction_error_from(msg: Any) -> float | None:
    if not msg.has_prediction_error:
        return None
    return float(finite("prediction_error", [msg.prediction_error])[0])


def _attention_from(msg: Any) -> dict[str, float]:
    shares = of_length("attention", finite("attention", msg.attention), msg.attention_modalities)
    return {name: float(share) for name, share in zip(msg.attention_modalities, shares, strict=True)}


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
        ages_message(output.age_ns),
        output.state_hash,
        output.rng_hash,
        output.runtime,
        output.threads,
        *latency_fields(output.latency_ns),
    )


def policy_output_from(msg: Any) -> PolicyOutput:
    """From tether_msgs/PolicyOutput."""
    return PolicyOutput(
        action_from(msg.action),
        refs_from(msg.used),
        ages_from(msg.ages),
        msg.state_hash,
        msg.rng_hash,
        msg.runtime,
        int(msg.threads),
        latency_from(msg),
    )


def decision_message(decision: Decision, episode: int) -> Any:
    """tether_msgs/Decision."""
    error = decision.prediction_error
    return message("tether_msgs/msg/Decision")(
        action_message(decision.action, episode),
        refs_message(decision.used),
        ages_message(decision.age_ns),
        decision.reason,
        error is not None,
        0.0 if error is None else error,
        decision.state_hash,
        decision.rng_hash,
        decision.runtime,
        decision.threads,
        *latency_fields(decision.latency_ns),
    )


def decision_from(msg: Any) -> Decision:
    """From tether_msgs/Decision."""
    return Decision(
        action_from(msg.action),
        refs_from(msg.used),
        ages_from(msg.ages),
        msg.reason,
        msg.state_hash,
        msg.rng_hash,
        msg.runtime,
        int(msg.threads),
        float(msg.prediction_error) if msg.has_prediction_error else None,
        latency_from(msg),
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
