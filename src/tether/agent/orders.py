"""What agent and policy tell each other through the graph: an order and a report a decision, and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from tether.agent.declaration import TaskSkill
from tether.codec.convert import skill_from, skill_message, to_ns, to_time
from tether.codec.store import message
from tether.contracts import Primitive, SkillContext

NOTHING = SkillContext(0, "", np.zeros(0), 0, 0, np.zeros(len(Primitive), np.bool_))
"""The context of an order that runs no skill."""


class OrderState(IntEnum):
    """What is ordered; see tether_msgs/SkillOrder."""

    HOLD = 0
    RUN = 1
    OVER = 2


class ReportState(IntEnum):
    """What became of it; see tether_msgs/SkillReport."""

    HOLDING = 0
    STARTING = 1
    RUNNING = 2
    FAULT = 3
    AGENT_LOST = 4


@dataclass(frozen=True, eq=False)
class SkillOrder:
    """What the policy is to do from `decision_id` on. stamp_ns: of the state that was chosen on.

    call_id, way, skill: with RUN. kills: how often a worker was to be killed in this episode. outcome, failure: with
    OVER. agent: with RUN, where several share the task, whose step it is; agent_pid, worker_pid: its processes.
    """

    stamp_ns: int
    episode: int
    decision_id: int
    state: OrderState
    task_id: str = ""
    call_id: str = ""
    way: str = ""
    skill: SkillContext = NOTHING
    kills: int = 0
    outcome: str = ""
    failure: str = ""
    agent: str = ""
    agent_pid: int = 0
    worker_pid: int = 0


@dataclass(frozen=True)
class SkillReport:
    """What the policy did at a decision. order_id: decision_id of the order in force, None without any."""

    stamp_ns: int
    episode: int
    decision_id: int
    order_id: int | None
    state: ReportState
    task_id: str = ""
    call_id: str = ""
    fault: str = ""
    worker_pid: int = 0


def context_of(skill: TaskSkill, values: Mapping[str, float], step: tuple[int, int], skill_id: int = 0) -> SkillContext:
    """A task skill as the policy sees it: parameters in declared order, step k of n, and the mask of its primitives."""
    mask = np.zeros(len(Primitive), np.bool_)
    mask[[Primitive[name.upper()] for name in skill.primitives]] = True
    params = np.array([values[parameter.name] for parameter in skill.parameters], dtype=np.float64)
    return SkillContext(skill_id, skill.name, params, *step, mask)


def order_message(order: SkillOrder) -> Any:
    """tether_msgs/SkillOrder."""
    return message("tether_msgs/msg/SkillOrder")(
        to_time(order.stamp_ns),
        order.episode,
        order.decision_id,
        int(order.state),
        order.task_id,
        order.call_id,
        order.way,
        skill_message(order.skill),
        order.kills,
        order.outcome,
        order.failure,
        order.agent,
        order.agent_pid,
        order.worker_pid,
        HOLD=0,
        RUN=1,
        OVER=2,
    )


def order_from(msg: Any) -> SkillOrder:
    """From tether_msgs/SkillOrder; ValueError for a state or a skill that is none."""
    return SkillOrder(
        to_ns(msg.stamp),
        int(msg.episode),
        int(msg.decision_id),
        OrderState(int(msg.state)),
        msg.task_id,
        msg.call_id,
        msg.way,
        skill_from(msg.skill),
        int(msg.kills),
        msg.outcome,
        msg.failure,
        msg.agent,
        int(msg.agent_pid),
        int(msg.worker_pid),
    )


def report_message(report: SkillReport) -> Any:
    """tether_msgs/SkillReport."""
    return message("tether_msgs/msg/SkillReport")(
        to_time(report.stamp_ns),
        report.episode,
        report.decision_id,
        report.order_id or 0,
        report.order_id is not None,
        int(report.state),
        report.task_id,
        report.call_id,
        report.fault,
        report.worker_pid,
        HOLDING=0,
        STARTING=1,
        RUNNING=2,
        FAULT=3,
        AGENT_LOST=4,
    )


def report_from(msg: Any) -> SkillReport:
    """From tether_msgs/SkillReport; ValueError for a state that is none."""
    return SkillReport(
        to_ns(msg.stamp),
        int(msg.episode),
        int(msg.decision_id),
        int(msg.order_id) if msg.has_order else None,
        ReportState(int(msg.state)),
        msg.task_id,
        msg.call_id,
        msg.fault,
        int(msg.worker_pid),
    )
