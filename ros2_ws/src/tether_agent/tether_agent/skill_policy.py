"""The policy of a graph with an agent: orders and fused states in, the running skill's hybrid action out.

It stands where the policy node stands and has its name. Skills run in a worker process, or where several agents share a
task in theirs; where that is lost, or where no order has come for ORDER_AGE_S, the policy holds.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.agent.domain import load_domain
from tether.agent.ordered import OrderedPolicy
from tether.agent.orders import OrderState, ReportState, SkillOrder, order_from, report_message
from tether.agent.proof import require_proved
from tether.agent.skill_policy import ANSWER_S
from tether.codec import convert, sensors
from tether.contracts import FusedState
from tether.lockstep import Needs, TickInputs
from tether.team.crew import DECISIONS
from tether.team.policy import CalledPolicy

STATE, ORDER = "fused_state", "order"
ORDER_AGE_S = 0.5
"""Real time: an agent that has said nothing for so long has no say any more."""
LIVE_ANSWER_S = 0.2
"""Real time: a worker that is silent for so long is killed; by then the gate has stopped the robot."""
_SAID = {ReportState.FAULT: "skill_fault", ReportState.AGENT_LOST: "agent_lost"}


class SkillPolicyNode(StageNode):
    """See `tether.agent.ordered`."""

    needs = Needs(at_decision=frozenset({STATE, ORDER}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("policy")
        self._folder = self.param("domain", "", "folder of the agent's domain; empty: the one that ships")
        self._team = self.param("team", "", "folder where agents that share a task call; empty: one does it all")

    def build(self) -> None:
        """Prove the domain; make inlets and outlets."""
        domain = load_domain(Path(self._folder) if self._folder else None)
        require_proved(domain)
        live = self.mode is Mode.REALTIME
        called = CalledPolicy(domain.folder, Path(self._team) / DECISIONS) if self._team else None
        self._policy = OrderedPolicy(domain, answer_s=LIVE_ANSWER_S if live else ANSWER_S, aside=live, called=called)
        self._undo.append(self._policy.close)
        self._episode = 0
        self._order: SkillOrder | None = None
        self._order_s = 0.0
        self._fault = ("", "")
        self._output = self.outlet(topics.POLICY_OUTPUT)
        self._report = self.outlet(topics.SKILL_REPORT)
        self.world_inlets()
        self.inlet(topics.FUSED_STATE, lambda msg: self._on_state(convert.fused_state_from(msg), int(msg.episode)))
        self.inlet(topics.SKILL_ORDER, lambda msg: self._on_order(order_from(msg)))

    def on_episode(self, start: Any) -> None:
        """Forget, with all that skills remember."""
        self._episode = int(start.episode)
        self._order = None
        self._policy.reset(self._episode, int(start.seed))

    def on_tick(self, inputs: TickInputs) -> None:
        """Decide where a decision is due."""
        if STATE in inputs.results:
            self._decide(inputs.results[STATE], inputs.results[ORDER])

    def _on_state(self, state: FusedState, episode: int) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(STATE, episode, state.decision_id, state)
        elif episode == self._episode:
            order = self._order
            at_work = order is not None and order.state is not OrderState.OVER
            if order is not None and at_work and time.monotonic() - self._order_s > ORDER_AGE_S:
                text = f"no order for {ORDER_AGE_S:g} s: the policy holds"
                data = {"task_id": order.task_id, "call_id": order.call_id}
                self.event(sensors.Severity.ERROR, "agent_silent", text, data)
                self._order = None
            self._decide(state, self._order)

    def _on_order(self, order: SkillOrder) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(ORDER, order.episode, order.decision_id, order)
        elif order.episode == self._episode:
            self._order, self._order_s = order, time.monotonic()

    def _decide(self, state: FusedState, order: SkillOrder | None) -> None:
        start_ns = time.monotonic_ns()
        report, output = self._policy.step(state, order)
        if report.state in _SAID and self._fault != (report.call_id, report.fault):
            self._fault = (report.call_id, report.fault)
            data = {"task_id": report.task_id, "call_id": report.call_id, "decision_id": state.decision_id}
            self.event(sensors.Severity.ERROR, _SAID[report.state], f"{report.call_id}: {report.fault}", data)
        if self.mode is Mode.REALTIME:
            output = dataclasses.replace(output, latency_ns={"policy": time.monotonic_ns() - start_ns})
        self._report.send(report_message(report))
        self._output.send(convert.policy_output_message(output, self._episode))


def main() -> None:
    """Entry point."""
    sys.exit(run([SkillPolicyNode]))
