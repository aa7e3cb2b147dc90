"""A simulated world around a task of an agent: it hears orders and reports, ends the episode when the task has ended,
judges by the truth whether its goal holds, and has mishaps put in. Robot and agent are told nothing of either."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import replace

from tether.agent.declaration import AgentTask
from tether.agent.injection import Injector, Mishap
from tether.agent.observing import judged, place_of
from tether.agent.orders import OrderState, SkillOrder, SkillReport
from tether.contracts import (
    TICK_NS,
    TICKS_PER_DECISION,
    Command,
    EpisodeResult,
    EpisodeSpec,
    TickDelivery,
    TruthSample,
)
from tether.world.mujoco_world import MujocoWorld
from tether.world.profile import Profile
from tether.world.task import Task

NO_GOAL = "goal_not_reached"


class TaskWorld:
    """See `tether.world.protocol.SimulatedWorld`. mishaps: taken in turn, one an episode."""

    def __init__(self, world: MujocoWorld, agent_task: AgentTask, mishaps: Sequence[Mishap], *, lockstep: bool) -> None:
        self.world = world
        self._goal = agent_task.goal
        defaults = {parameter.name: parameter.default for parameter in agent_task.parameters}
        self._default = place_of(defaults)
        self._mishaps, self._lockstep = tuple(mishaps), lockstep
        self._number = self._reported = -1
        self._pid = self._agent_pid = 0
        self._orders: dict[int, SkillOrder] = {}
        self.running: str | None = None
        """Name of the skill that is ordered."""

    @property
    def task(self) -> Task:
        """What is to be done, and where things lie."""
        return self.world.task

    @property
    def profile(self) -> Profile:
        """How far the world is from ideal."""
        return self.world.profile

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints that it takes commands for."""
        return self.world.joint_names

    def take_order(self, order: SkillOrder) -> None:
        """What the agent has just said to the policy."""
        if order.episode == self._number:
            self._orders[order.decision_id] = order

    def take_report(self, report: SkillReport) -> None:
        """What the policy has just said of an order."""
        if report.episode == self._number:
            self._reported = max(self._reported, report.decision_id)
            self._pid = report.worker_pid

    def knows_enough(self) -> bool:
        """Lockstep: whether everything has come that this tick's outcome may depend on."""
        decision, rest = divmod(self._delivery.tick, TICKS_PER_DECISION)
        return decision + (rest > 0) in self._orders and self._reported >= decision

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Start an episode, with the mishap whose turn it is."""
        self._number += 1
        self._orders = {}
        self._reported, self._pid, self._agent_pid, self.running = -1, 0, 0, None
        self._spec, self._start_ns, self._place = spec, start_ns, self._default
        self._injector = Injector(self._mishaps[self._number % len(self._mishaps)], spec.seed)
        self._delivery = self.world.reset(spec, start_ns)
        self._injector.begin(self.world)
        return self._delivery

    def step(self, command: Command | None) -> TickDelivery:
        """One tick; after the order that says that the task is over, the last one."""
        order = self._order_now()
        self._look_who_runs(order if order is not None and order.state is OrderState.RUN else None)
        result = self._judge(order) if order is not None and order.state is OrderState.OVER else None
        self._injector.before_step(self, self._delivery.stamp_ns - self._start_ns)
        following = self._injector.delivered(self.world.step(command), self._start_ns)
        self._delivery = following if result is None else replace(following, result=result)
        return self._delivery

    def kill_worker(self) -> bool:
        """See `tether.agent.injection.Scene`: with signal 9, and its group."""
        return self._kill(self._pid)

    def kill_agent(self) -> bool:
        """See `tether.agent.injection.Scene`: where several share the task; one agent alone says when it is over."""
        return self._kill(self._agent_pid)

    def _kill(self, pid: int) -> bool:
        if not pid or self.running is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return True

    def _look_who_runs(self, order: SkillOrder | None) -> None:
        """order: that runs a skill at this tick, None for none. One agent's worker is known by its report only."""
        self.running = None if order is None else order.skill.name
        self._agent_pid = 0 if order is None else order.agent_pid
        if self._agent_pid and order is not None:
            self._pid = order.worker_pid

    def measure(self) -> TruthSample:
        """The state now."""
        return self.world.measure()

    def skip(self, lost_ns: int) -> None:
        """Real time went on by `lost_ns` without the world."""
        self.world.skip(lost_ns)

    def close(self) -> None:
        """Free what the world holds."""
        self.world.close()

    def _order_now(self) -> SkillOrder | None:
        decision, rest = divmod(self._delivery.tick, TICKS_PER_DECISION)
        number = decision + (rest > 0) if self._lockstep else max(self._orders, default=-1)
        for old in [old for old in self._orders if old < number]:
            del self._orders[old]
        return self._orders.get(number)

    def _judge(self, order: SkillOrder) -> EpisodeResult:
        found = judged(self.world.measure(), self._place)
        done = order.outcome == "done"
        success = all(found.get(name, done) for name in self._goal)
        attempts = self.world.attempts
        duration_s = self._delivery.tick * TICK_NS * 1e-9
        failure = None if success else order.failure or NO_GOAL
        return EpisodeResult(self._spec, success, success and attempts == 1, attempts, duration_s, failure)
