"""Orders of an agent, and a policy that follows them with a real worker; the robot behind a graph, without one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import psutil
import pytest

from tether.agent.calls import Call, Outcome, Status
from tether.agent.domain import Domain
from tether.agent.graph_robot import ClosedError, EpisodeBegun, GraphRobot
from tether.agent.observing import Place
from tether.agent.ordered import OrderedPolicy
from tether.agent.orders import (
    OrderState,
    ReportState,
    SkillOrder,
    SkillReport,
    context_of,
    order_from,
    order_message,
    report_from,
    report_message,
)
from tether.agent.recorded import RecordedSkills
from tether.agent.robot import WorldEndedError
from tether.agent.skill_policy import hold
from tether.codec import decode, encode
from tether.contracts import (
    TICK_NS,
    Estimate,
    FusedState,
    HybridAction,
    JointSample,
    Mode,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
)
from tether.policy.stage import PolicyStage
from tether.robot.roles import COMMAND_JOINTS

ANYTHING = SkillContext(0, "fetch", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))


def state(number: int, stamp_ns: int | None = None) -> FusedState:
    stamp_ns = 1_000_000_000 + 50_000_000 * number if stamp_ns is None else stamp_ns
    position = np.array([0.0, -1.75, 1.95, 1.37, 0.75, 0.022])
    joints = JointSample(SampleRef(Stream.JOINTS, stamp_ns, number), COMMAND_JOINTS, position, np.zeros(6))
    boxes, features = np.zeros((0, 6), np.float32), np.zeros(0, np.float32)
    none = Estimate.none(stamp_ns)
    return FusedState(number, stamp_ns, (), {}, none, joints, np.zeros((6, 0)), boxes, features, ANYTHING)


def order(domain: Domain, number: int, name: str, way: str, *, call: str = "t/1", kills: int = 0) -> SkillOrder:
    skill = domain.skills[name]
    context = context_of(skill, {parameter.name: parameter.default for parameter in skill.parameters}, (1, 3))
    return SkillOrder(7, 0, number, OrderState.RUN, "t", call, way, context, kills)


def holding(number: int, kills: int = 0) -> SkillOrder:
    return SkillOrder(7, 0, number, OrderState.HOLD, "t", kills=kills)


@pytest.fixture
def policy(domain: Domain) -> Iterator[OrderedPolicy]:
    made = OrderedPolicy(domain, answer_s=30.0, aside=False)
    yield made
    made.close()


def test_orders_and_reports_come_back_from_their_messages_as_they_were(domain: Domain) -> None:
    given = replace(order(domain, 5, "carry", "direct", kills=2), outcome="failed", failure="nowhere")
    given = replace(given, agent="base", agent_pid=2**40, worker_pid=7)
    back = order_from(decode(encode(order_message(given)), "tether_msgs/msg/SkillOrder"))
    plain = {name: value for name, value in vars(given).items() if name != "skill"}
    assert {name: value for name, value in vars(back).items() if name != "skill"} == plain
    assert back.skill.name == "carry"
    assert back.skill.params.tolist() == given.skill.params.tolist()
    assert back.skill.primitive_mask.tolist() == given.skill.primitive_mask.tolist()
    for order_id in (None, 0, 4):
        report = SkillReport(1, 2, 3, order_id, ReportState.FAULT, "t", "t/1", "gone", 77)
        assert report_from(decode(encode(report_message(report)), "tether_msgs/msg/SkillReport")) == report


def test_the_policy_does_what_is_ordered_and_holds_otherwise(domain: Domain, policy: OrderedPolicy) -> None:
    report, output = policy.step(state(0), None)
    assert (report.state, report.order_id) == (ReportState.HOLDING, None)
    assert (output.action.primitive, output.action.source) == (Primitive.HOLD, Source.FALLBACK)

    report, output = policy.step(state(1), order(domain, 1, "carry", "direct"))
    assert (report.state, report.task_id, report.call_id) == (ReportState.RUNNING, "t", "t/1")
    assert output.action.primitive is Primitive.REACH
    assert psutil.pid_exists(report.worker_pid)

    report, output = policy.step(state(2), holding(2))
    assert (report.state, output.action.primitive) == (ReportState.HOLDING, Primitive.HOLD)
    assert report.worker_pid, "a skill that has ended well leaves its worker to the next"


def test_an_order_to_kill_leaves_no_worker_and_the_policy_holds(domain: Domain, policy: OrderedPolicy) -> None:
    pid = policy.step(state(0), order(domain, 0, "carry", "direct"))[0].worker_pid
    report, output = policy.step(state(1), holding(1, kills=1))
    assert not psutil.pid_exists(pid)
    assert (report.state, report.worker_pid) == (ReportState.HOLDING, 0)
    assert output.action.primitive is Primitive.HOLD
    report, _ = policy.step(state(2), order(domain, 2, "carry", "direct", call="t/2", kills=1))
    assert report.state is ReportState.RUNNING
    assert report.worker_pid not in (0, pid)


def test_a_worker_that_is_killed_from_outside_is_a_fault_by_name(domain: Domain, policy: OrderedPolicy) -> None:
    pid = policy.step(state(0), order(domain, 0, "carry", "direct"))[0].worker_pid
    os.killpg(pid, 9)
    report, output = policy.step(state(1), order(domain, 1, "carry", "direct"))
    assert report.state is ReportState.FAULT
    assert f"worker {pid}" in report.fault
    assert output.action.primitive is Primitive.HOLD


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"way": "by_magic"}, "by_magic"),
        ({"skill": replace(ANYTHING, name="dance")}, "dance"),
        ({"skill": replace(ANYTHING, name="carry")}, "0 values"),
        ({"skill": "carry, with every primitive"}, "primitive_mask"),
    ],
)
def test_an_order_of_what_does_not_exist_is_a_fault_by_name(
    domain: Domain, policy: OrderedPolicy, change: dict[str, object], named: str
) -> None:
    right = order(domain, 0, "carry", "direct")
    if change.get("skill") == "carry, with every primitive":
        change = {"skill": replace(right.skill, primitive_mask=ANYTHING.primitive_mask)}
    wrong = replace(right, **change)
    for number in (0, 1):
        report, output = policy.step(state(number), replace(wrong, decision_id=number))
        assert report.state is ReportState.FAULT
        assert named in report.fault
        assert output.action.primitive is Primitive.HOLD


def test_a_worker_that_the_system_does_not_start_is_a_fault_by_name(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    beside = OrderedPolicy(domain, answer_s=30.0, aside=True)
    try:
        reports = [beside.step(state(0), order(domain, 0, "carry", "direct"))[0]]
        while reports[-1].state is ReportState.STARTING:
            reports.append(beside.step(state(len(reports)), order(domain, len(reports), "carry", "direct"))[0])
        assert reports[-1].state is ReportState.FAULT
        assert "/nowhere/python" in reports[-1].fault
    finally:
        beside.close()


def test_a_start_that_nobody_waits_for_any_more_leaves_no_worker(domain: Domain) -> None:
    beside = OrderedPolicy(domain, answer_s=30.0, aside=True)
    before = set(psutil.Process().children())
    try:
        for kills in range(5):
            number = 2 * kills
            given = order(domain, number, "carry", "direct", call=f"t/{number}", kills=kills)
            assert beside.step(state(number), given)[0].state in (ReportState.STARTING, ReportState.RUNNING)
            report, output = beside.step(state(number + 1), holding(number + 1, kills=kills + 1))
            assert (report.state, output.action.primitive) == (ReportState.HOLDING, Primitive.HOLD)
            assert not [one for one in set(psutil.Process().children()) - before if one.status() != "zombie"]
    finally:
        beside.close()


def test_a_recorded_run_of_skills_comes_out_the_same_again(domain: Domain, policy: OrderedPolicy) -> None:
    policy.reset(0, 3)
    said = {
        0: holding(0),
        1: order(domain, 1, "pick", "direct", call="t/1"),
        2: order(domain, 2, "pick", "direct", call="t/1"),
        3: order(domain, 3, "carry", "direct", call="t/2"),
        4: order(domain, 4, "carry", "direct", call="t/2"),
        5: holding(5, kills=1),
        6: order(domain, 6, "place", "direct", call="t/3", kills=1),
        7: replace(order(domain, 7, "carry", "direct", call="t/4", kills=1), way="by_magic"),
    }
    reports, outputs = {}, []
    for number, given in said.items():
        if number == 4:
            os.killpg(reports[3].worker_pid, 9)
        reports[number], output = policy.step(state(number), given)
        outputs.append(output)
    states = [report.state for report in reports.values()]
    assert states.count(ReportState.FAULT) == 2
    assert states.count(ReportState.RUNNING) == 4

    again = PolicyStage(RecordedSkills(domain, said, reports), policy._stage._skills, threads=1)
    again.reset(3)
    for number, output in enumerate(outputs):
        rebuilt = again.step(state(number), None)
        assert rebuilt.action.primitive is output.action.primitive
        assert rebuilt.action.params.tolist() == output.action.params.tolist()
        assert (rebuilt.state_hash, rebuilt.runtime) == (output.state_hash, output.runtime)


class Counting:
    """A way that remembers: tells by its first parameter how often it was asked."""

    def reset(self, seed: int) -> None:
        self._asked = 0

    def decide(self, state: FusedState, truth: object) -> HybridAction:
        self._asked += 1
        params = np.array([0.1 + 0.01 * self._asked, 0.0, 0.2, 0.05, 0.5])
        return replace(hold(state), primitive=Primitive.REACH, params=params)


def counting(parameters: object) -> Counting:
    return Counting()


def test_recorded_workers_of_several_agents_each_remember_what_they_did_themselves(domain: Domain) -> None:
    carry = domain.skills["carry"]
    way = replace(carry.ways["direct"], entry="test_agent_orders:counting", remembers=True)
    domain = replace(domain, skills={**domain.skills, "carry": replace(carry, ways={"direct": way})})
    pids = [7, 7, 8, 7, 9]
    orders = {n: order(domain, n, "carry", "direct", call=f"t/{n}") for n in range(len(pids))}
    reports = {n: SkillReport(7, 0, n, n, ReportState.RUNNING, "t", f"t/{n}", "", pid) for n, pid in enumerate(pids)}
    again = RecordedSkills(domain, orders, reports)
    again.reset(3)
    asked = [again.decide(state(n), None).params[0] for n in range(len(pids))]
    assert asked == pytest.approx([0.11, 0.12, 0.11, 0.13, 0.11])


# -- The robot behind a graph ----------------------------------------------------------------------------------------


class Graph:
    """Stands in for the graph's end of the line: a test tells the robot what a live graph would."""

    def __init__(self, lockstep: bool) -> None:
        self.orders: list[SkillOrder] = []
        self.robot = GraphRobot(self.orders.append, lambda: None, lockstep=lockstep, silent_s=30.0)

    def advance(self) -> threading.Thread:
        thread = threading.Thread(target=self.robot.advance)
        thread.start()
        return thread

    def decide(self, number: int, tell: SkillReport | None = None) -> None:
        self.robot.on_state(0, state(number))
        self.robot.on_report(tell or SkillReport(0, 0, number, number, ReportState.HOLDING))
        self.robot.on_mode(0, 5 * number, Mode.ACTIVE)


def begun(lockstep: bool) -> Graph:
    graph = Graph(lockstep)
    graph.robot.on_episode(EpisodeBegun(0, 3, 1_000_000_000))
    assert graph.robot.await_episode(Place(0.2, -0.1)).seed == 3
    return graph


def test_in_lockstep_a_decision_waits_for_state_report_and_verdict_in_any_order() -> None:
    graph = begun(lockstep=True)
    graph.robot.on_mode(0, 0, Mode.ACTIVE)
    graph.robot.on_report(SkillReport(0, 0, 0, 0, ReportState.HOLDING))
    graph.robot.on_mode(0, 3, Mode.STOP)  # within a decision: of no account
    thread = graph.advance()
    graph.robot.on_state(9, state(0))  # of another episode
    thread.join(0.2)
    assert thread.is_alive(), "its state has not come"
    graph.robot.on_state(0, state(0))
    thread.join(30.0)
    assert not thread.is_alive()
    assert graph.robot.facts["robot_ok"].value is True
    assert graph.robot.now_ns() == 1_000_000_000 + TICK_NS
    assert [(said.decision_id, said.state) for said in graph.orders] == [(0, OrderState.HOLD)]


def test_a_skill_is_ordered_with_its_task_and_stopped_with_a_kill(domain: Domain) -> None:
    graph = begun(lockstep=True)
    graph.decide(0)
    graph.robot.advance()
    call = Call("t/1-carry", "t", "carry", {"x": 0.2, "y": -0.1}, 2**62)
    graph.robot.start(call, domain.skills["carry"], "direct", (2, 5))
    graph.decide(1, SkillReport(0, 0, 1, 1, ReportState.FAULT, "t", "t/1-carry", "its worker is lost"))
    graph.robot.advance()
    said = graph.orders[-1]
    assert (said.decision_id, said.state, said.task_id, said.call_id) == (1, OrderState.RUN, "t", "t/1-carry")
    assert (said.skill.step_k, said.skill.step_n, said.way) == (2, 5, "direct")
    assert graph.robot.fault == "its worker is lost"
    graph.robot.stop(kill=True)
    assert graph.robot.fault is None
    graph.decide(2)
    graph.robot.advance()
    assert (graph.orders[-1].state, graph.orders[-1].kills, graph.orders[-1].task_id) == (OrderState.HOLD, 1, "t")


def test_a_lent_robot_orders_by_its_agent_and_an_agent_that_is_lost_is_no_fault_of_its_worker(domain: Domain) -> None:
    graph = begun(lockstep=True)
    call = Call("t/1-carry", "t", "carry", {"x": 0.2, "y": -0.1}, 2**62)
    graph.robot.lend("base", 8, None)
    graph.robot.linked_pid = 9
    graph.robot.start(call, domain.skills["carry"], "direct", (1, 1))
    graph.decide(0, SkillReport(0, 0, 0, 0, ReportState.AGENT_LOST, "t", "t/1-carry", "process 8 is gone", 9))
    graph.robot.advance()
    assert (graph.orders[-1].agent, graph.orders[-1].agent_pid, graph.orders[-1].worker_pid) == ("base", 8, 9)
    assert (graph.robot.lost, graph.robot.fault) == ("process 8 is gone", None)
    graph.robot.stop(kill=True)
    graph.decide(1)
    graph.robot.advance()
    assert (graph.orders[-1].state, graph.orders[-1].agent_pid, graph.robot.lost) == (OrderState.HOLD, 0, None)


def test_the_end_of_the_world_and_of_the_agent_wake_whoever_waits() -> None:
    graph = begun(lockstep=True)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            graph.robot.advance()
        except (WorldEndedError, ClosedError) as error:
            caught.append(error)

    for tell in (lambda: graph.robot.on_end(0, "timeout"), graph.robot.close):
        thread = threading.Thread(target=wait)
        thread.start()
        tell()
        thread.join(30.0)
        assert not thread.is_alive()
        graph.robot.on_episode(EpisodeBegun(0, 3, 1_000_000_000))
    assert [type(error) for error in caught] == [WorldEndedError, ClosedError]
    assert "timeout" in str(caught[0])


def test_an_ended_task_is_said_with_its_outcome_and_the_next_episode_begins_anew() -> None:
    graph = begun(lockstep=True)
    graph.decide(0)
    graph.robot.advance()
    thread = threading.Thread(target=graph.robot.over, args=(Outcome("fetch-3", Status.FAILED, "nowhere"),))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "the world has not ended the episode"
    graph.robot.on_end(0, "nowhere")
    thread.join(30.0)
    said = graph.orders[-1]
    assert (said.state, said.task_id, said.outcome, said.failure) == (OrderState.OVER, "fetch-3", "failed", "nowhere")
    graph.robot.on_episode(EpisodeBegun(1, 4, 9_000_000_000))
    assert graph.robot.await_episode(Place(0.2, -0.1)).seed == 4
    assert graph.robot.facts == {}
    assert graph.robot.now_ns() == 9_000_000_000


def test_in_real_time_states_that_came_together_are_taken_together() -> None:
    graph = begun(lockstep=False)
    for number in (0, 2, 3):  # one was lost on its way
        graph.decide(number)
    graph.robot.advance()
    assert graph.robot.now_ns() == state(3).stamp_ns + TICK_NS
    graph.decide(4)
    graph.robot.advance()
    assert [said.decision_id for said in graph.orders] == [0, 4]
