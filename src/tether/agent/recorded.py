"""Skills of a recorded run once more, for `tether replay --check`: the code that its orders name, on its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tether.agent.domain import Domain
from tether.agent.ordered import parameters_of_order, skill_of
from tether.agent.orders import ReportState, SkillOrder, SkillReport
from tether.agent.skill_policy import fitting, hold, skill_digest
from tether.agent.worker import KeptPolicies
from tether.contracts import FusedState, HybridAction, SkillContext, Source, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.policy.protocol import Policy


class RecordedSkills:
    """A policy that follows recorded orders, one episode long. That a worker was lost stands in the reports, and there
    the robot held; a worker remembers what its own process did in this episode, and nothing of another's."""

    source = Source.STUDENT
    is_oracle = False
    runtime = "worker"

    def __init__(self, domain: Domain, orders: Mapping[int, SkillOrder], reports: Mapping[int, SkillReport]) -> None:
        """orders, reports: by decision id."""
        self._domain, self._orders, self._reports = domain, orders, reports
        self._seed = 0
        self._pid = 0
        self._call = ""
        self._kept: dict[int, KeptPolicies] = {}
        self._policy: Policy | None = None
        self._context: SkillContext | None = None

    def reset(self, seed: int) -> None:
        """Start the episode."""
        self._seed = seed

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """What the skill that was running chooses, or a hold where none was. Raises InvalidInputError where an order
        is not in the recording."""
        self._context = None
        report = self._reports.get(state.decision_id)
        if report is None or report.state in (ReportState.HOLDING, ReportState.STARTING):
            self._call = ""
            return hold(state)
        order = None if report.order_id is None else self._orders.get(report.order_id)
        if order is None:
            fault = Fault(f"decision {state.decision_id}", f"no order {report.order_id}", "the order that it names")
            raise InvalidInputError("recording to check", [fault])
        self._context = order.skill
        if report.state in (ReportState.FAULT, ReportState.AGENT_LOST):
            self._call = ""
            return hold(state)
        return fitting(
            self._policy_of(order, report).decide(replace(state, skill=order.skill), None), state, order.skill
        )

    def state_hash(self) -> str:
        """As `SkillPolicy`'s."""
        return skill_digest(self._context)

    def rng_hash(self) -> str:
        """As `SkillPolicy`'s."""
        return "none"

    def _policy_of(self, order: SkillOrder, report: SkillReport) -> Policy:
        if report.worker_pid != self._pid:
            self._pid, self._call = report.worker_pid, ""
        if order.call_id != self._call or self._policy is None:
            skill = skill_of(self._domain, order)
            way, place = skill.ways[order.way], self._domain.folder / "skills"
            values = parameters_of_order(skill, order)
            self._call = order.call_id
            kept = self._kept.setdefault(report.worker_pid, KeptPolicies())
            self._policy = kept.begin(way.entry, place, values, keep=way.remembers, seed=self._seed)
        return self._policy
