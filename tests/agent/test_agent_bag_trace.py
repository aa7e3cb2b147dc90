"""What a recording says of a task, by its id: made of real messages, whose times are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_agent_orders import holding, order, state

from tether import topics
from tether.agent.bag_trace import as_text, tasks_of
from tether.agent.domain import Domain
from tether.agent.orders import OrderState, ReportState, SkillReport, order_message, report_message
from tether.agent.skill_policy import hold
from tether.bags.writer import BagWriter
from tether.cli import main
from tether.codec import convert, encode, sensors
from tether.contracts import Decision, Primitive
from tether.errors import InvalidInputError

MS = 1_000_000


def decision(number: int, primitive: Primitive) -> Any:
    action = replace(hold(state(number)), primitive=primitive)
    made = Decision(action, (), {}, "student alone", "", "", "worker", 1)
    return convert.decision_message(made, 0)


def speed(stamp_ns: int, rad_s: float) -> Any:
    joints = state(0, stamp_ns).joints
    assert joints is not None
    return sensors.joint_state_message(replace(joints, velocity=np.array([0.0, rad_s, 0.0, 0.0, 0.0, 0.0])))


@pytest.fixture
def bag(domain: Domain, tmp_path: Path) -> Path:
    """carry runs for two decisions and is killed at its time limit; place's agent is lost; the task then ends."""
    carry = [replace(order(domain, n, "carry", "direct"), stamp_ns=state(n).stamp_ns - 40 * MS) for n in (0, 1)]
    place = [order(domain, n, "place", "direct", call="t/2", kills=1) for n in (4, 5)]
    place = [replace(one, agent="arm", agent_pid=8, worker_pid=9) for one in place]
    killed = [replace(holding(n, kills=1), stamp_ns=state(n).stamp_ns - 40 * MS) for n in (2, 3)]
    over = replace(holding(6, kills=2), state=OrderState.OVER, outcome="failed", failure="nowhere")
    orders = [*carry, *killed, *place, over]
    kinds = [ReportState.RUNNING] * 2 + [ReportState.HOLDING] * 2 + [ReportState.RUNNING, ReportState.AGENT_LOST]
    path = tmp_path / "bag"
    writer = BagWriter(path)
    for topic in (topics.SKILL_ORDER, topics.SKILL_REPORT, topics.DECISION, topics.JOINT_STATES, topics.EVENTS):
        writer.add_topic(topic.name, topic.type, [])

    def write(topic: topics.Topic, msg: Any, at_ns: int) -> None:
        writer.write(topic.name, encode(msg), at_ns)

    for number, given in enumerate(orders):
        write(topics.SKILL_ORDER, order_message(given), state(number).stamp_ns)
    for number, kind in enumerate(kinds):
        stamp_ns = state(number).stamp_ns
        fault = "process 8 ended" if kind is ReportState.AGENT_LOST else ""
        call = orders[number].call_id
        report = SkillReport(stamp_ns, 0, number, number, kind, "t", call, fault, 9)
        write(topics.SKILL_REPORT, report_message(report), stamp_ns)
        primitive = Primitive.REACH if kind is ReportState.RUNNING else Primitive.HOLD
        write(topics.DECISION, decision(number, primitive), stamp_ns)
    killed_ns = orders[2].stamp_ns
    for after_ms, rad_s in ((-20, 2.0), (10, 1.0), (50, 0.5), (60, 0.02), (80, 0.03), (200, 1.0)):
        write(topics.JOINT_STATES, speed(killed_ns + after_ms * MS, rad_s), killed_ns + after_ms * MS)
    event = sensors.event_message(state(5).stamp_ns, "policy", 2, "skill_fault", "gone", {"task_id": "t"})
    write(topics.EVENTS, event, state(5).stamp_ns)
    writer.close()
    return path


def test_a_killed_worker_leaves_a_hold_at_the_next_decision_and_joints_that_come_to_rest(bag: Path) -> None:
    (task,) = tasks_of(bag)
    carry, place = task.calls
    assert (task.task_id, task.outcome, task.failure) == ("t", "failed", "nowhere")
    assert (carry.call_id, carry.decisions, dict(carry.primitives)) == ("t/1", 2, {"reach": 2})
    assert carry.killed
    assert carry.fault == ""
    assert carry.hold_s == pytest.approx(0.040)
    assert carry.still_s == pytest.approx(0.060)
    assert (carry.agent, place.agent, place.fault, place.hold_s) == ("", "arm", "process 8 ended", 0.0)
    assert "arm: t/2 (direct), 2 decisions" in as_text(task)
    assert "agent lost: a hold decided after 0 ms" in as_text(task)
    assert [text for _, text in task.events] == ["policy: skill_fault: gone"]
    assert "worker killed: a hold decided after 40 ms, joints still after 60 ms" in as_text(task)


def test_a_task_is_found_by_its_id_and_another_is_refused(bag: Path, capsys) -> None:
    assert main(["agent", "trace", str(bag), "--task-id", "t"]) == 0
    assert "t: failed nowhere" in capsys.readouterr().out
    assert main(["agent", "trace", str(bag), "--task-id", "u"]) == 2
    assert "expected one of t" in capsys.readouterr().err


def test_a_recording_without_an_agent_is_refused_by_name(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    writer.add_topic(topics.CLOCK.name, topics.CLOCK.type, [])
    writer.write(topics.CLOCK.name, encode(sensors.clock_message(1)), 1)
    writer.close()
    with pytest.raises(InvalidInputError, match="no orders of an agent"):
        tasks_of(tmp_path / "bag")
