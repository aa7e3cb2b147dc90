"""A task in a recording: what agent, policy, bridge, gate and joints said of it, joined by its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tether import topics
from tether.agent.orders import OrderState, ReportState, SkillOrder, SkillReport, order_from, report_from
from tether.bags.reader import open_bag
from tether.codec import convert, decode, sensors
from tether.contracts import TICKS_PER_DECISION, Mode, Primitive
from tether.errors import Fault, InvalidInputError

STILL_RAD_S = 0.1
"""Measured joint speeds below it count as standing still: on a joint at rest, noise comes close to it."""
_READ = (
    topics.SKILL_ORDER,
    topics.SKILL_REPORT,
    topics.DECISION,
    topics.VERDICT,
    topics.JOINT_STATES,
    topics.EVENTS,
)
_LOOK_DECISIONS = 40
"""After a worker was gone: how far a hold is looked for."""
_Key = tuple[int, int]


@dataclass
class CallTrace:
    """One call of a skill. agent: whose it was, where several share the task. primitives: how often each was decided;
    modes: of the gate, in its ticks.

    lost_ns: stamp of the decision at which the worker, or the agent with it, was gone, by a kill order or by itself;
    from there on, seconds until the policy's hold was decided, and until the joints stood still. None where that was
    not.
    """

    call_id: str
    skill: str
    way: str
    first_ns: int
    last_ns: int
    agent: str = ""
    decisions: int = 0
    primitives: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    agent_lost: bool = False
    killed: bool = False
    lost_ns: int | None = None
    hold_s: float | None = None
    still_s: float | None = None


@dataclass(frozen=True)
class TaskTrace:
    """All that a recording holds of a task. events: stamp and text of those that name it."""

    task_id: str
    outcome: str
    failure: str
    calls: tuple[CallTrace, ...]
    events: tuple[tuple[int, str], ...]


@dataclass
class _Heard:
    orders: dict[_Key, SkillOrder] = field(default_factory=dict)
    reports: dict[_Key, SkillReport] = field(default_factory=dict)
    primitives: dict[_Key, Primitive] = field(default_factory=dict)
    modes: dict[_Key, list[Mode]] = field(default_factory=dict)
    speeds: list[tuple[int, float]] = field(default_factory=list)
    events: list[tuple[int, str, Mapping[str, Any]]] = field(default_factory=list)

    def take(self, topic: str, msg: Any) -> None:
        if topic == topics.SKILL_ORDER.name:
            self.orders[int(msg.episode), int(msg.decision_id)] = order_from(msg)
        elif topic == topics.SKILL_REPORT.name:
            self.reports[int(msg.episode), int(msg.decision_id)] = report_from(msg)
        elif topic == topics.DECISION.name:
            action = msg.action
            self.primitives[int(action.episode), int(action.decision_id)] = Primitive(int(action.primitive))
        elif topic == topics.VERDICT.name:
            key = int(msg.episode), int(msg.tick) // TICKS_PER_DECISION
            self.modes.setdefault(key, []).append(Mode(int(msg.mode)))
        elif topic == topics.JOINT_STATES.name:
            fastest = float(np.max(np.abs(msg.velocity), initial=0.0))
            self.speeds.append((convert.to_ns(msg.header.stamp), fastest))
        else:
            self.events.append(
                (convert.to_ns(msg.stamp), f"{msg.node}: {msg.kind}: {msg.text}", sensors.event_data(msg))
            )


def tasks_of(bag: Path) -> list[TaskTrace]:
    """Every task of a recording, in the order in which they began. Raises InvalidInputError where it holds none."""
    heard = _read(bag)
    ids = dict.fromkeys(order.task_id for _, order in sorted(heard.orders.items()) if order.task_id)
    if not ids:
        fault = Fault(str(bag), "no orders of an agent", f"a recording with {topics.SKILL_ORDER.name}")
        raise InvalidInputError("recording", [fault], "record one: tether agent run TASK --graph --bag FOLDER")
    return [_task(heard, task_id) for task_id in ids]


def _read(bag: Path) -> _Heard:
    types = {topic.name: topic.type for topic in _READ}
    heard = _Heard()
    with open_bag(bag) as reader:
        for message in reader.messages(topics=[name for name in reader.topics if name in types]):
            heard.take(message.topic, decode(message.raw, types[message.topic]))
    return heard


def _task(heard: _Heard, task_id: str) -> TaskTrace:
    orders = [(key, order) for key, order in sorted(heard.orders.items()) if order.task_id == task_id]
    calls: dict[str, CallTrace] = {}
    before: SkillOrder | None = None
    for key, order in orders:
        if before is not None and order.kills > before.kills and before.call_id in calls:
            _killed(calls[before.call_id], order, key, heard)
        if order.state is OrderState.RUN:
            at = calls.get(order.call_id)
            if at is None:
                span = order.stamp_ns, order.stamp_ns
                at = CallTrace(order.call_id, order.skill.name, order.way, *span, order.agent)
                calls[order.call_id] = at
            _follow(at, order, key, heard)
        before = order
    last = orders[-1][1]
    events = tuple((stamp, text) for stamp, text, data in heard.events if data.get("task_id") == task_id)
    return TaskTrace(task_id, last.outcome or "not ended", last.failure, tuple(calls.values()), events)


def _follow(call: CallTrace, order: SkillOrder, key: _Key, heard: _Heard) -> None:
    call.last_ns = order.stamp_ns
    call.decisions += 1
    if key in heard.primitives:
        call.primitives[heard.primitives[key].name.lower()] += 1
    call.modes.update(mode.name for mode in heard.modes.get(key, ()))
    report = heard.reports.get(key)
    gone = report is not None and report.state in (ReportState.FAULT, ReportState.AGENT_LOST)
    if report is not None and gone and not call.fault:
        call.fault, call.agent_lost = report.fault, report.state is ReportState.AGENT_LOST
        _lost(call, report.stamp_ns, key, heard)


def _killed(call: CallTrace, order: SkillOrder, key: _Key, heard: _Heard) -> None:
    """The agent had the worker killed: at its time limit or deadline, or because it was lost already."""
    call.killed = True
    if call.lost_ns is None:
        _lost(call, order.stamp_ns, key, heard)


def _lost(call: CallTrace, lost_ns: int, key: _Key, heard: _Heard) -> None:
    """How long after the worker was gone the policy held, and the joints stood still."""
    call.lost_ns = lost_ns
    episode, number = key
    for later in range(number, number + _LOOK_DECISIONS):
        report = heard.reports.get((episode, later))
        if report is None or (report.state is ReportState.RUNNING and report.call_id != call.call_id):
            break
        if heard.primitives.get((episode, later)) is Primitive.HOLD:
            call.hold_s = max((report.stamp_ns - lost_ns) * 1e-9, 0.0)
            break
    if call.hold_s is None:
        return
    until_ns = min((r.stamp_ns for k, r in heard.reports.items() if _runs_after(k, r, key)), default=2**63)
    call.still_s = _still_after(heard.speeds, lost_ns, until_ns)


def _runs_after(key: _Key, report: SkillReport, lost: _Key) -> bool:
    return key[0] == lost[0] and key[1] > lost[1] and report.state is ReportState.RUNNING


def _still_after(speeds: Iterable[tuple[int, float]], lost_ns: int, until_ns: int) -> float | None:
    """Seconds until the first moment from which the joints stand still until `until_ns`; None where they do not."""
    still_ns = None
    for stamp_ns, speed in speeds:
        if lost_ns <= stamp_ns < until_ns:
            if speed >= STILL_RAD_S:
                still_ns = None
            elif still_ns is None:
                still_ns = stamp_ns
    return None if still_ns is None else (still_ns - lost_ns) * 1e-9


def _stop_text(call: CallTrace) -> str:
    if call.hold_s is None:
        return "the next skill chose, or the task was over, with the next decision"
    still = "not before the next skill chose" if call.still_s is None else f"after {call.still_s * 1e3:.0f} ms"
    return f"a hold decided after {call.hold_s * 1e3:.0f} ms, joints still {still}"


def as_text(task: TaskTrace) -> str:
    """For people."""
    lines = [f"{task.task_id}: {task.outcome} {task.failure}".rstrip()]
    for call in task.calls:
        chosen = ", ".join(f"{count} {name}" for name, count in call.primitives.most_common())
        gate = ", ".join(f"{count} {name}" for name, count in call.modes.most_common())
        who = f"{call.agent}: " if call.agent else ""
        lines.append(
            f"  {call.first_ns * 1e-9:8.2f} s  {who}{call.call_id} ({call.way}), {call.decisions} decisions: {chosen}"
        )
        lines.append(f"              gate: {gate}")
        if call.fault:
            lines.append(f"              fault: {call.fault}")
        if call.lost_ns is not None:
            why = "killed" if call.killed and not call.fault else "lost"
            lines.append(f"              {'agent' if call.agent_lost else 'worker'} {why}: {_stop_text(call)}")
    lines += [f"  {stamp * 1e-9:8.2f} s  {text}" for stamp, text in task.events]
    return "\n".join(lines) + "\n"
