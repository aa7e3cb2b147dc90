"""A policy that agents' processes call: it asks the one that an order names, and holds, by name, where that is gone."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_agent_orders import order, state

from tether.agent.domain import load_domain
from tether.agent.injection import Injector, Mishap
from tether.agent.ordered import OrderedPolicy
from tether.agent.orders import ReportState, SkillOrder
from tether.agent.skill_policy import SkillPolicy
from tether.contracts import DECISION_NS, TICK_NS, Primitive
from tether.errors import InvalidInputError
from tether.team.link import Link, LinkKind, LinkLostError, connected
from tether.team.member import LinkedRobot
from tether.team.policy import CalledPolicy

DOMAIN = load_domain()
PID = os.getpid()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def policy(path: Path) -> Iterator[OrderedPolicy]:
    made = OrderedPolicy(DOMAIN, answer_s=30.0, aside=False, called=CalledPolicy(DOMAIN.folder, path))
    yield made
    made.close()


def given(number: int, call: str = "t/1", pid: int = PID) -> SkillOrder:
    return replace(order(DOMAIN, number, "carry", "direct", call=call), agent="base", agent_pid=pid, worker_pid=77)


class Agent:
    """An agent's end of the link: a real worker behind it, asked in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.policy = SkillPolicy(DOMAIN.folder)
        self._context = connected(str(path))
        self.link = self._context.__enter__()
        self.link.send_fields(LinkKind.HELLO, name="base", pid=PID)
        self._owner, self._mine = map(Link, socket.socketpair())
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def begin(self) -> None:
        asked = given(0)
        values = {p.name: p.default for p in DOMAIN.skills["carry"].parameters}
        self.policy.start(DOMAIN.skills["carry"].ways["direct"], values, asked.skill)

    def close(self) -> None:
        self._owner.close()
        self._thread.join(30.0)
        assert not self._thread.is_alive()
        self.policy.kill()
        self._context.__exit__(*sys.exc_info())

    def _answer(self) -> None:
        try:
            LinkedRobot(self._mine, self.policy, self.link).advance()
        except LinkLostError:
            return


def test_the_agent_that_the_order_names_is_asked_and_its_workers_fault_is_not_its_own(
    policy: OrderedPolicy, path: Path
) -> None:
    agent = Agent(path)
    agent.begin()
    report, output = policy.step(state(0), given(0))
    assert (report.state, report.worker_pid) == (ReportState.RUNNING, 77)
    assert output.action.primitive is Primitive.REACH
    os.killpg(agent.policy.worker_pid, 9)
    report, output = policy.step(state(1), given(1))
    assert (report.state, output.action.primitive) == (ReportState.FAULT, Primitive.HOLD)
    assert report.fault.startswith("worker ")
    agent.close()


def test_an_agent_that_is_gone_or_has_not_called_is_lost_and_the_policy_holds(
    policy: OrderedPolicy, path: Path
) -> None:
    report, output = policy.step(state(0), given(0))
    assert (report.state, output.action.primitive) == (ReportState.AGENT_LOST, Primitive.HOLD)
    assert report.fault == f"process {PID} of base has not called"
    agent = Agent(path)
    agent.begin()
    assert policy.step(state(1), given(1, "t/2"))[0].state is ReportState.RUNNING
    agent.close()
    report, output = policy.step(state(2), given(2, "t/2"))
    assert (report.state, output.action.primitive) == (ReportState.AGENT_LOST, Primitive.HOLD)
    assert report.fault.startswith(f"process {PID}: ")
    other, output = policy.step(state(3), given(3, "t/3", pid=PID + 1))
    assert (other.state, output.action.primitive) == (ReportState.AGENT_LOST, Primitive.HOLD)


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a path that a socket can have"):
        CalledPolicy(DOMAIN.folder, tmp_path / ("s" * 200))


def test_an_agent_is_killed_while_it_waits_for_a_decision_and_never_at_the_decisions_own_tick() -> None:
    class Scene:
        world = running = None

        def __init__(self) -> None:
            self.killed: list[int] = []

        def kill_agent(self) -> bool:
            self.killed.append(now_ns)
            return True

    at_ticks = set()
    for seed in range(100):
        scene, injector = Scene(), Injector(Mishap.AGENT_KILLED, seed)
        for now_ns in range(0, 4_000_000_000, TICK_NS):
            injector.before_step(scene, now_ns)  # type: ignore[arg-type]  # it needs no more of a scene
        (killed_ns,) = scene.killed
        assert injector.happened_ns == killed_ns
        at_ticks.add(killed_ns % DECISION_NS // TICK_NS)
    assert at_ticks == {1, 2, 3, 4}
