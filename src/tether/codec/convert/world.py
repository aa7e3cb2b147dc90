"""What a world says: plans, episodes, executed commands, the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.codec.convert.basics import ref_from, ref_message, refs_from, refs_message, to_ns, to_time
from tether.codec.store import message
from tether.codec.values import finite, floats
from tether.contracts import (
    Command,
    EpisodeResult,
    EpisodeSpec,
    ExecutedCommand,
    Primitive,
    SkillContext,
    Source,
    TickPlan,
    TruthSample,
)

NO_DECISION = -1
"""Decision id of a command that reached a world by standard messages, which do not carry it."""


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
