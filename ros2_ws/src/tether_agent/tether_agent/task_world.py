"""The MuJoCo world around a task of the agent; see `tether.agent.task_world`."""

from __future__ import annotations

import sys
from pathlib import Path

from tether_ros.node import Mode
from tether_ros.process import run
from tether_world.world import WorldNode

from tether import topics
from tether.agent.domain import load_domain
from tether.agent.injection import Mishap
from tether.agent.orders import order_from, report_from
from tether.agent.task_world import TaskWorld
from tether.assembly import make_world
from tether.errors import Fault, InvalidInputError


class TaskWorldNode(WorldNode):
    """A world whose episodes last as long as the agent's tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._agent_task = self.param("agent_task", "fetch", "task of the agent's domain, whose goal is judged")
        self._domain = self.param("domain", "", "folder of that domain; empty: the one that ships")
        self._mishaps = self.param("mishaps", "none", "put into the world in turn, one an episode; parted by commas")

    def build(self) -> None:
        """As the world's; orders and reports are heard besides."""
        super().build()
        self.inlet(topics.SKILL_ORDER, self._on_order)
        self.inlet(topics.SKILL_REPORT, self._on_report)

    def open_world(self, truth_age_ns: int | None, pictures: bool) -> TaskWorld:
        """The world, with mishaps and a judge around it."""
        tasks = load_domain(Path(self._domain) if self._domain else None).tasks
        if self._agent_task not in tasks:
            raise InvalidInputError("world", [Fault("agent_task", self._agent_task, f"one of {', '.join(tasks)}")])
        lockstep = self.mode is Mode.LOCKSTEP
        world = make_world(
            self._task,
            self._profile,
            truth_age_ns=truth_age_ns,
            pictures=pictures,
            measures=True,
            steady_watchdog=not lockstep,
        )
        mishaps = [Mishap(name.strip()) for name in self._mishaps.split(",")]
        self._around = TaskWorld(world, tasks[self._agent_task], mishaps, lockstep=lockstep)
        return self._around

    def _on_order(self, msg: object) -> None:
        self._around.take_order(order_from(msg))
        self._step_if_complete()

    def _on_report(self, msg: object) -> None:
        self._around.take_report(report_from(msg))
        self._step_if_complete()

    def _step_if_complete(self) -> None:
        """Lockstep: the agent's word is waited for, too."""
        if self._delivery is not None and self._around.knows_enough():
            super()._step_if_complete()


def main() -> None:
    """Entry point."""
    sys.exit(run([TaskWorldNode]))
