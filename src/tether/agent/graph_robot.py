"""The robot of an agent behind a live graph: facts from what its stages publish, and an order a decision to its policy.

Whoever hears the graph tells it (`on_…`, from any thread); the agent's thread waits in `advance`. In lockstep a
decision is over once its state, the report of it and the gate's verdict on its tick have come, in whatever order. In
real time the newest verdict counts, and states that came together are taken together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tether.agent.calls import Call, Outcome
from tether.agent.declaration import TaskSkill
from tether.agent.facts import Facts
from tether.agent.observing import FactSense, Place
from tether.agent.orders import OrderState, ReportState, SkillOrder, SkillReport, context_of
from tether.agent.robot import WorldEndedError
from tether.agent.workers import START_S
from tether.assembly import robot
from tether.contracts import TICK_NS, TICKS_PER_DECISION, U8, FusedState, Mode
from tether.errors import TetherError
from tether.fusion.classic_config import load_classic_config
from tether.resources import resource_path

SILENT_S = 120.0
"""Steady time without a decision after which the graph counts as ended: opening a model may take long in lockstep."""


class ClosedError(TetherError):
    """The agent is to end; nothing more is to be waited for."""


@dataclass(frozen=True)
class EpisodeBegun:
    """An episode of the graph, and when it starts on the world's clock."""

    episode: int
    seed: int
    start_ns: int


class GraphRobot:
    """See `tether.agent.robot.Robot`. send: publishes an order. picture: the newest picture that was heard."""

    def __init__(
        self, send: Callable[[SkillOrder], None], picture: Callable[[], U8 | None], *, lockstep: bool, silent_s: float
    ) -> None:
        self._send, self._newest_picture = send, picture
        self.lockstep, self._silent_s = lockstep, silent_s
        self._sense = FactSense(robot(), load_classic_config(resource_path("config", "classic.yaml")))
        self._came = threading.Condition()
        self._closed = False
        self._heard: EpisodeBegun | None = None
        self._ended: str | None = None
        self._states: dict[int, FusedState] = {}
        self._reports: dict[int, SkillReport] = {}
        self._modes: dict[int, Mode] = {}
        self._order = SkillOrder(0, 0, 0, OrderState.HOLD)
        self._report: SkillReport | None = None
        self._lent = ("", 0)
        self.linked_pid = 0
        """Process of the worker of the agent that the robot is lent to."""
        self._begin(EpisodeBegun(-1, 0, 0))

    # -- what whoever hears the graph tells --------------------------------------------------------------------------

    def on_episode(self, begun: EpisodeBegun) -> None:
        """An episode has started."""
        with self._came:
            self._heard, self._ended = begun, None
            self._states, self._reports, self._modes = {}, {}, {}
            self._came.notify_all()

    def on_end(self, episode: int, why: str) -> None:
        """The world has ended an episode."""
        with self._came:
            if self._heard is not None and episode == self._heard.episode:
                self._ended = why
                self._came.notify_all()

    def on_state(self, episode: int, state: FusedState) -> None:
        """Fusion has made a state."""
        self._keep(episode, lambda: self._states.__setitem__(state.decision_id, state))

    def on_report(self, report: SkillReport) -> None:
        """The policy has decided."""
        self._keep(report.episode, lambda: self._reports.__setitem__(report.decision_id, report))

    def on_mode(self, episode: int, tick: int, mode: Mode) -> None:
        """The gate has judged a tick. Ticks within a decision matter in real time only."""
        decision, rest = divmod(tick, TICKS_PER_DECISION)
        if rest == 0 or not self.lockstep:
            self._keep(episode, lambda: self._modes.__setitem__(decision, mode))

    def close(self) -> None:
        """Whatever waits, and whatever will, raises ClosedError."""
        with self._came:
            self._closed = True
            self._came.notify_all()

    # -- episodes ----------------------------------------------------------------------------------------------------

    def await_episode(self, place: Place) -> EpisodeBegun:
        """Wait for an episode that was not begun yet, and begin it. Raises ClosedError."""
        with self._came:
            while self._heard is None or self._heard.episode == self._episode.episode:
                self._wait(None)
            begun = self._heard
        self._begin(begun)
        self._sense.place = place
        return begun

    def over(self, outcome: Outcome) -> None:
        """Say that the task has ended, and how; the world then ends the episode, which is waited for."""
        self._order = SkillOrder(
            0,
            0,
            0,
            OrderState.OVER,
            outcome.call_id,
            kills=self._order.kills,
            outcome=outcome.status.value,
            failure=outcome.failure or "",
        )
        if self._ended is None:
            self._say()
        with self._came:
            while self._ended is None and self._current():
                self._wait(self._silent_s)

    # -- Robot -------------------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """What the sensors say now."""
        return self._sense.facts

    @property
    def evidence(self) -> Mapping[str, float]:
        """The numbers behind the facts."""
        return self._sense.evidence

    @property
    def fault(self) -> str | None:
        """What the policy reports of the running skill's worker."""
        return self._reported(ReportState.FAULT)

    def now_ns(self) -> int:
        """The world's time at the tick after the newest decision's."""
        return self._now_ns

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        """See `Robot.start`. In real time decisions are waited for until the worker has started; the robot holds."""
        self._sense.look_at(call.parameters)
        self._order = SkillOrder(
            0,
            0,
            0,
            OrderState.RUN,
            call.task_id,
            call.call_id,
            way,
            context_of(skill, call.parameters, step),
            self._order.kills,
            agent=self._lent[0],
            agent_pid=self._lent[1],
            worker_pid=self.linked_pid,
        )
        until_ns = self._now_ns + round(START_S * 1e9)
        while not self.lockstep and not self._taken_up() and self._now_ns < until_ns:
            self.advance()

    def advance(self) -> None:
        """See `Robot.advance`."""
        self._say()
        for state, mode, report in self._await_decisions():
            self._sense.take(state, mode)
            self._now_ns = state.stamp_ns + TICK_NS
            self._next = state.decision_id + 1
            self._report = report

    def stop(self, *, kill: bool) -> None:
        """See `Robot.stop`."""
        task_id, kills = self._order.task_id, self._order.kills + int(kill)
        self._order = SkillOrder(0, 0, 0, OrderState.HOLD, task_id, kills=kills)

    def judged(self) -> Mapping[str, bool]:
        """Nobody outside judges while a graph runs."""
        return {}

    def picture(self) -> U8 | None:
        """The newest picture."""
        return self._newest_picture()

    # -- Lender, where several agents share the task -----------------------------------------------------------------

    @property
    def lost(self) -> str | None:
        """What the policy reports of its link to the agent whose step it is; see `tether.team.executor.Lender`."""
        return self._reported(ReportState.AGENT_LOST)

    def lend(self, agent: str, pid: int, link: object) -> None:
        """Orders name this agent from its start on; the policy has a link of its own to it."""
        self._lent, self.linked_pid = (agent, pid), 0

    # -- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, begun: EpisodeBegun) -> None:
        self._episode = begun
        self._now_ns = begun.start_ns
        self._next = 0
        self._order = SkillOrder(0, 0, 0, OrderState.HOLD)
        self._report = None
        self._sense.reset()

    def _say(self) -> None:
        named = {"stamp_ns": self._now_ns, "episode": self._episode.episode, "decision_id": self._next}
        self._send(replace(self._order, **named))  # type: ignore[arg-type]  # all three are integers

    def _reported(self, state: ReportState) -> str | None:
        """The policy's words on the running order, where it is said to be in this state."""
        report = self._report
        ours = report is not None and self._order.state is OrderState.RUN and report.call_id == self._order.call_id
        return report.fault if ours and report is not None and report.state is state else None

    def _taken_up(self) -> bool:
        """Whether the policy says of the order that is given that its worker has started."""
        report = self._report
        known = report is not None and report.call_id == self._order.call_id
        return known and report is not None and report.state in (ReportState.RUNNING, ReportState.FAULT)

    def _await_decisions(self) -> list[tuple[FusedState, Mode, SkillReport]]:
        with self._came:
            while True:
                if self._ended is not None or not self._current():
                    raise WorldEndedError(self._ended or "another episode has begun")
                decisions = self._those_done()
                if decisions:
                    return decisions
                self._wait(self._silent_s)

    def _those_done(self) -> list[tuple[FusedState, Mode, SkillReport]]:
        if self.lockstep:
            number = self._next
            if number not in self._states or number not in self._reports or number not in self._modes:
                return []
            return [(self._states.pop(number), self._modes.pop(number), self._reports.pop(number))]
        done = sorted(number for number in self._states if number in self._reports and number >= self._next)
        if not done or not self._modes:
            return []
        mode = self._modes[max(self._modes)]
        decisions = [(self._states[number], mode, self._reports[number]) for number in done]
        for table in (self._states, self._reports, self._modes):
            for number in [number for number in table if number < done[-1]]:
                del table[number]
        return decisions

    def _keep(self, episode: int, put: Callable[[], None]) -> None:
        with self._came:
            if self._heard is not None and episode == self._heard.episode:
                put()
                self._came.notify_all()

    def _current(self) -> bool:
        return self._heard is not None and self._heard.episode == self._episode.episode

    def _wait(self, within_s: float | None) -> None:
        """Wait for anything. Raises ClosedError, and WorldEndedError where nothing comes within that time."""
        if self._closed:
            raise ClosedError("the agent is closed")
        if not self._came.wait(within_s):
            raise WorldEndedError(f"the graph said nothing for {within_s:g} s")
        if self._closed:
            raise ClosedError("the agent is closed")
