"""The agent of a live graph: hears states, verdicts and reports, and orders which skill chooses; it sends no motion.

It runs its task once an episode, or serves `ExecuteSkill` (`serve:=true`). Its thread does the thinking; ROS callbacks
only hand over what comes. With `agents` it is their coordinator and runs no skill; they are processes that it starts.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.agent.domain import Domain, load_domain
from tether.agent.graph_agent import CallLoop, Errand, TaskLoop
from tether.agent.graph_robot import SILENT_S, EpisodeBegun, GraphRobot
from tether.agent.machine import Machine, pruned
from tether.agent.orders import order_message, report_from
from tether.agent.proof import require_proved
from tether.codec import convert, decode, sensors
from tether.contracts import U8
from tether.contracts import Mode as GateMode
from tether.errors import Fault, InvalidInputError
from tether.ingest.encodings import ColourImage, decode_raw
from tether.ingest.rejection import RejectedError
from tether.lockstep import TickInputs
from tether.memory.link import RemoteMemory
from tether.team.crew import Team
from tether.team.roster import load_roster
from tether_agent.skill_server import SkillServer, spin

_JOIN_S = 1.0


class AgentNode(StageNode):
    """See `tether.agent.graph_robot` and `tether.agent.graph_agent`."""

    def __init__(self) -> None:
        super().__init__("agent")
        self._folder = self.param("domain", "", "folder of the agent's domain; empty: the one that ships")
        self._task = self.param("task", "fetch", "task that is run in each episode")
        self._policy = self.param("policy", "student", "whose eyes and fusion; classic leaves the learned ways out")
        self._script = self.param("script", False, "the fixed script in the agent's place")
        self._serve = self.param("serve", False, "serve ExecuteSkill instead of running the task")
        self._runs = self.param("runs", "", "folder for graphs of runs and requests to a person; empty: none")
        self._memory = self.param("memory", "", "socket of whoever has the agent's memory open; empty: none")
        self._results = self.param("results", "", "file that takes a line of JSON a task; empty: none")
        self._agents = self.param("agents", "", "agents that share the task, parted by commas; empty: one does it all")
        self._team = self.param("team", "", "folder of their sockets, with the server of their record; empty: none")

    def build(self) -> None:
        """Prove the domain; make the robot, inlets and outlets."""
        domain = load_domain(Path(self._folder) if self._folder else None)
        require_proved(domain)
        excluded = () if self._policy.startswith("student") else ("student",)
        ways = pruned(domain, Machine.here(camera=True), excluded).ways
        self._picture: bytes | None = None
        self._order = self.outlet(topics.SKILL_ORDER)
        robot = self._robot = GraphRobot(
            lambda order: self._order.send(order_message(order)),
            self._newest_picture,
            lockstep=self.mode is Mode.LOCKSTEP,
            silent_s=SILENT_S,
        )
        memory, team = self._remote_memory(), self._opened_team(domain, ways)
        errand = Errand(self._task, self._script, _path(self._runs), _path(self._results))
        self._calls = CallLoop(robot, domain, ways) if self._serve else None
        self._loop = self._calls or TaskLoop(robot, domain, ways, errand, memory, team)
        self._executor_thread = threading.get_ident()
        self.inlet(topics.EPISODE_START, self._on_start)
        self.inlet(topics.EPISODE_END, self._on_end)
        self.inlet(topics.FUSED_STATE, lambda msg: robot.on_state(int(msg.episode), convert.fused_state_from(msg)))
        self.inlet(topics.SKILL_REPORT, lambda msg: robot.on_report(report_from(msg)))
        self.inlet(topics.VERDICT, lambda msg: robot.on_mode(int(msg.episode), int(msg.tick), GateMode(msg.mode)))
        self.raw_inlet(topics.IMAGE, self._on_picture, fed=False)

    def _remote_memory(self) -> RemoteMemory | None:
        if not self._memory:
            return None
        if self._serve:
            raise InvalidInputError("agent", [Fault("memory", "serve", "one of them: calls have no memory")])
        memory = RemoteMemory(Path(self._memory))
        self._undo.append(memory.close)
        return memory

    def _opened_team(self, domain: Domain, ways: Mapping[str, str]) -> Team | None:
        if not self._agents:
            return None
        live = self.mode is not Mode.LOCKSTEP
        wrong = {"serve": self._serve, "script": self._script, "realtime": live, "no team": not self._team}
        faults = [Fault("agents", name, "a task in lockstep, with a team's folder") for name in wrong if wrong[name]]
        if faults:
            raise InvalidInputError("agent", faults)
        roster = load_roster(domain, [name.strip() for name in self._agents.split(",")])
        stack = contextlib.ExitStack()
        team = stack.enter_context(Team(domain, roster, ways, Path(self._team)))
        self._undo.append(stack.close)
        return team

    def on_activate(self, state: Any) -> Any:
        """Begin to think."""
        outcome = super().on_activate(state)
        if self.active:
            thread = threading.Thread(target=self._think, name="agent", daemon=True)
            thread.start()
            self._undo.append(lambda: self._end(thread))
            if self._calls is not None:
                self._serve_calls(self._calls)
        return outcome

    def on_episode(self, start: Any) -> None:
        """Heard by `_on_start`: the agent keeps no barrier."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Never called: the agent's thread waits for what it needs."""

    def turned(self) -> None:
        """What the agent's own thread says is no turn of the executor's loop."""
        if threading.get_ident() == self._executor_thread:
            super().turned()

    def _serve_calls(self, calls: CallLoop) -> None:
        server, over = SkillServer(calls), threading.Event()
        thread = threading.Thread(target=spin, args=(server, over), name="skill_server", daemon=True)
        thread.start()

        def end() -> None:
            self._robot.close()
            over.set()
            thread.join(_JOIN_S)
            server.destroy_node()

        self._undo.append(end)

    def _think(self) -> None:
        try:
            self._loop.run()
        except Exception as error:  # noqa: BLE001 - whatever ends the thread ends the node, by name
            self.fail(f"{type(error).__name__}: {error}")

    def _end(self, thread: threading.Thread) -> None:
        self._robot.close()
        thread.join(_JOIN_S)

    def _on_start(self, msg: Any) -> None:
        self._picture = None
        self._world_ns = convert.to_ns(msg.stamp)
        self._robot.on_episode(EpisodeBegun(int(msg.episode), int(msg.seed), self._world_ns))

    def _on_end(self, msg: Any) -> None:
        self._robot.on_end(int(msg.episode), str(msg.failure) or "the task's own success")

    def _on_picture(self, raw: bytes) -> None:
        self._picture = bytes(raw)

    def _newest_picture(self) -> U8 | None:
        raw = self._picture  # the executor's thread may forget it meanwhile
        if raw is None:
            return None
        image = sensors.raw_image(decode(raw, topics.IMAGE.type))
        shape = (image.width, image.height, image.step, image.is_bigendian)
        try:
            picture = decode_raw(image.encoding, *shape, image.data)
        except RejectedError:
            return None
        return picture.rgb if isinstance(picture, ColourImage) else None


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def main() -> None:
    """Entry point."""
    sys.exit(run([AgentNode]))
