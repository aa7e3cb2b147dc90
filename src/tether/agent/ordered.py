"""The policy of a graph with an agent: follows orders, one a decision, and reports what became of each."""

from __future__ import annotations

import contextlib
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain
from tether.agent.orders import OrderState, ReportState, SkillOrder, SkillReport, context_of
from tether.agent.skill_policy import SkillPolicy
from tether.assembly import skills
from tether.contracts import FusedState, PolicyOutput, Primitive
from tether.errors import Fault, InvalidInputError
from tether.policy.stage import PolicyStage
from tether.team.policy import CalledPolicy

THREADS = 1
"""Of a worker's numerical libraries."""
_LOOK_S = 0.01


class OrderedPolicy:
    """Owns the skills' worker: `close` it. aside: workers start beside the decisions, which hold meanwhile (real time);
    otherwise a decision waits until its worker has started (lockstep). called: by agents that have workers of their
    own; orders name the one that is asked."""

    def __init__(self, domain: Domain, *, answer_s: float, aside: bool, called: CalledPolicy | None = None) -> None:
        self._domain, self._called = domain, called
        self._policy = called or SkillPolicy(domain.folder, answer_s)
        self._stage = PolicyStage(self._policy, skills(), THREADS)
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starter") if aside else None
        self._starting: Future[None] | None = None
        self.reset(0, 0)

    def reset(self, episode: int, seed: int) -> None:
        """Start an episode: no order is in force."""
        self._end_starting()
        self._policy.reset(seed)
        self._episode = episode
        self._kills = 0
        self._call = ""

    def close(self) -> None:
        """Kill the worker."""
        self._end_starting()
        self._policy.kill()
        if self._called is not None:
            self._called.close()
        if self._starter is not None:
            self._starter.shutdown()

    def step(self, state: FusedState, order: SkillOrder | None) -> tuple[SkillReport, PolicyOutput]:
        """What is reported and proposed at a decision. order: the one in force; None: hold.

        A skill or way that the domain does not have is a fault of the order, by name.
        """
        if order is not None:
            self._follow(order)
        if self._starting is not None and self._starting.done():
            self._starting.result()  # raises what nobody expected
            self._starting = None
            self._policy.busy = False
        output = self._stage.step(state, None)
        fault = self._policy.fault or ""
        report = SkillReport(
            stamp_ns=state.stamp_ns,
            episode=self._episode,
            decision_id=state.decision_id,
            order_id=None if order is None else order.decision_id,
            state=self._state(order, fault),
            task_id="" if order is None else order.task_id,
            call_id="" if order is None else order.call_id,
            fault=fault,
            worker_pid=self._policy.worker_pid,
        )
        return report, output

    def _state(self, order: SkillOrder | None, fault: str) -> ReportState:
        if order is None or order.state is not OrderState.RUN:
            return ReportState.HOLDING
        if self._starting is not None:
            return ReportState.STARTING
        if self._called is not None and self._called.lost is not None:
            return ReportState.AGENT_LOST
        return ReportState.FAULT if fault else ReportState.RUNNING

    def _follow(self, order: SkillOrder) -> None:
        """Make the order the one in force."""
        killed = order.kills != self._kills
        if killed or order.state is not OrderState.RUN or order.call_id != self._call:
            self._end_starting()
        if killed:
            self._kills = order.kills
            self._policy.stop(kill=True)
            self._call = ""
        if order.state is not OrderState.RUN:
            if self._call:
                self._policy.stop(kill=False)
                self._call = ""
        elif order.call_id != self._call:
            self._call = order.call_id
            self._start(order)

    def _start(self, order: SkillOrder) -> None:
        try:
            skill = skill_of(self._domain, order)
        except InvalidInputError as error:
            self._policy.refuse(order.skill, str(error))
            return
        parameters = parameters_of_order(skill, order)
        if self._starter is None:
            self._policy.start(skill.ways[order.way], parameters, order.skill)
            if self._called is not None:
                self._called.turn_to(order.agent, order.agent_pid, order.worker_pid)
        else:
            self._policy.busy = True
            self._starting = self._starter.submit(self._policy.start, skill.ways[order.way], parameters, order.skill)

    def _end_starting(self) -> None:
        """A start that nobody waits for any more: its worker is killed, so that it ends at once."""
        if self._starting is None:
            return
        while not self._starting.done():  # the process may not be there yet at the first look
            pid = self._policy.worker_pid
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            wait([self._starting], timeout=_LOOK_S)
        self._starting.result()
        self._starting = None
        self._policy.busy = False


def skill_of(domain: Domain, order: SkillOrder) -> TaskSkill:
    """The skill that is ordered. Raises InvalidInputError where the domain does not have it, that way, or its mask."""
    skill = domain.skills.get(order.skill.name)
    if skill is None:
        raise InvalidInputError("order", [Fault("skill", repr(order.skill.name), f"one of {', '.join(domain.skills)}")])
    if order.way not in skill.ways:
        raise InvalidInputError("order", [Fault("way", repr(order.way), f"one of {', '.join(skill.ways)}")])
    if len(order.skill.params) != len(skill.parameters):
        found, expected = f"{len(order.skill.params)} values", f"{len(skill.parameters)} of {skill.name}"
        raise InvalidInputError("order", [Fault("params", found, expected)])
    declared = context_of(skill, parameters_of_order(skill, order), (1, 1)).primitive_mask
    if not np.array_equal(order.skill.primitive_mask, declared):
        named = ", ".join(p.name.lower() for p in Primitive if order.skill.primitive_mask[p])
        raise InvalidInputError("order", [Fault("primitive_mask", named, ", ".join(skill.primitives))])
    return skill


def parameters_of_order(skill: TaskSkill, order: SkillOrder) -> dict[str, float]:
    """A skill's parameters by name."""
    return {p.name: float(value) for p, value in zip(skill.parameters, order.skill.params, strict=True)}
