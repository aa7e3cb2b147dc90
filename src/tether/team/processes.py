"""The agents' processes: started, listened to, and started anew where one is killed, or stopped and no longer beats."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tether.agent.domain import Domain
from tether.errors import TetherError
from tether.memory.redis_server import Client
from tether.resources import resource_path
from tether.safety.heartbeat import AgentRule, Beat, HeartbeatMonitor
from tether.safety.settings import load_safety
from tether.team import record
from tether.team.link import Link, Listener
from tether.team.member import MemberSettings
from tether.team.roster import Roster

_LOG = logging.getLogger(__name__)
START_S = 120.0
"""For Python and its libraries to start on a busy small machine."""
DYING_S = 0.2
"""Between the end of a process's link and its own."""
_POLL_S = 0.02
_BEATS_S = 1.0
_SAFETY = ("config", "safety.yaml")


class OfflineError(TetherError):
    """An agent is gone, and was started anew as often as it may be."""


@dataclass(frozen=True)
class Happening:
    """What became of an agent's process. at_s: since the task began, of a steady clock."""

    agent: str
    pid: int
    what: str
    at_s: float


@dataclass
class _Agent:
    process: subprocess.Popen[bytes] | None = None
    link: Link | None = None
    restarts: int = 0


class Processes:
    """Of one team. A context manager; leaving it ends them all. One thread at a time.

    rule: when an agent that no longer beats counts as offline; that of config/safety.yaml where None.
    """

    def __init__(
        self,
        domain: Domain,
        roster: Roster,
        ways: Mapping[str, str],
        client: Client,
        url: str,
        folder: Path,
        rule: AgentRule | None = None,
        decisions: Path | None = None,
    ) -> None:
        """folder: for the link's socket, on a short path; client, url: of the same server. decisions: socket of the
        process that asks for decisions, None where it is this one."""
        rules = load_safety(resource_path(*_SAFETY)).heartbeats
        self._rule = rule or rules.agents
        self._monitor = HeartbeatMonitor(replace(rules, loops={}, agents=self._rule))
        self.roster, self._client = roster, client
        path = folder / "link.sock"
        self._listener = Listener(path)
        asks = None if decisions is None else str(decisions)
        self._settings = {
            name: MemberSettings(name, url, str(path), str(domain.folder), dict(ways), self._rule.ttl_s, asks)
            for name in roster.agents
        }
        self._agents = {name: _Agent() for name in roster.agents}
        self._begun_s = self._heard_s = time.monotonic()
        self.happenings: list[Happening] = []

    def __enter__(self) -> Processes:
        self._client.delete(record.TASK_KEY, *(record.BEAT_KEY + name for name in self._agents))
        for name in self._agents:
            self._start(name)
        return self

    def __exit__(self, *exc: object) -> None:
        for name in self._agents:
            self._end(name)
        self._listener.close()

    def begin(self, task_id: str, seed: int) -> None:
        """A task begins: agents may be started anew as often as before, and follow its record from now on."""
        self._begun_s, self.happenings = time.monotonic(), []
        self.look()
        for name, agent in self._agents.items():
            agent.restarts = 0
            if agent.process is None:
                self._start(name)
        self._client.set(record.TASK_KEY, json.dumps({"task_id": task_id, "seed": seed}))

    def pid(self, name: str) -> int:
        """Process id; 0 where it does not run."""
        process = self._agents[name].process
        return 0 if process is None or process.poll() is not None else process.pid

    def current(self, name: str) -> Link | None:
        """The link to an agent, where there is one now."""
        return self._agents[name].link

    def drop(self, name: str, link: Link, why: str) -> str:
        """This link is of no more use, and so is the process behind it, unless another stands there by now. Returns
        what became of the process, or `why`."""
        agent = self._agents[name]
        if agent.link is link and agent.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                why = f"ended with status {agent.process.wait(DYING_S)}"
            self._lost(name, why)
        return why

    def link(self, name: str) -> Link:
        """The link to an agent, once there is one. Raises OfflineError where none comes, or it may start no more."""
        until_s = time.monotonic() + START_S
        while True:
            self.look()
            agent = self._agents[name]
            if agent.link is not None:
                return agent.link
            if agent.process is None:
                raise OfflineError(f"{name} was started anew {self.roster.restarts} times in this task")
            if time.monotonic() > until_s:
                raise OfflineError(
                    f"{name} (process {self.pid(name)}) did not answer within {START_S:g} s of its start"
                )
            time.sleep(_POLL_S)

    def look(self) -> None:
        """Take new links, and start anew whoever is gone. Quick: for every decision."""
        for name, agent in self._agents.items():
            if agent.process is not None and agent.process.poll() is not None:
                self._lost(name, f"ended with status {agent.process.returncode}")
        self._accept()
        if time.monotonic() - self._heard_s >= _BEATS_S:
            self._heard_s = time.monotonic()
            self._hear()

    def _lost(self, name: str, why: str) -> None:
        """An agent is of no more use: kill what is left of it, and start it anew where that may be."""
        agent = self._agents[name]
        _LOG.warning("agent %s: %s", name, why)
        self._happened(name, why)
        self._end(name)
        if agent.restarts < self.roster.restarts:
            agent.restarts += 1
            self._start(name)
            self._happened(name, "started anew")

    def _start(self, name: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tether.team.member", self._settings[name].text()]
        self._agents[name].process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
        )

    def _end(self, name: str) -> None:
        """Its worker dies with it."""
        agent = self._agents[name]
        if agent.link is not None:
            agent.link.close()
        if agent.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.process.pid, signal.SIGKILL)
            agent.process.wait()
        agent.process = agent.link = None

    def _accept(self) -> None:
        for name, pid, link in self._listener.callers():
            if name in self._agents and pid == self.pid(name):
                self._agents[name].link = link
            else:
                link.close()  # of a process that was killed meanwhile

    def _hear(self) -> None:
        """Heartbeats, once in a while: a process that lives and no longer beats is killed, and started anew."""
        from redis.exceptions import RedisError

        names = list(self._agents)
        try:
            beats = self._client.mget([record.BEAT_KEY + name for name in names])
        except RedisError:
            self._monitor.forget()  # while the server is gone nobody can be heard: that is no sign of death
            return
        now_ns = time.monotonic_ns()
        for name, text in zip(names, beats, strict=True):
            beat = json.loads(text) if text is not None else None
            if beat is not None and beat["pid"] == self.pid(name):
                loop = f"{self._rule.prefix}{name}/{beat['pid']}"
                self._monitor.hear(Beat(name, beat["pid"], (loop,), (beat["turns"],)), now_ns)
        silent = {each.loop.removeprefix(self._rule.prefix) for each in self._monitor.offline(now_ns)}
        for name in names:
            if f"{name}/{self.pid(name)}" in silent:
                self._lost(name, f"offline: no heartbeat for {self._rule.offline_s:g} s")

    def _happened(self, name: str, what: str) -> None:
        self.happenings.append(Happening(name, self.pid(name), what, time.monotonic() - self._begun_s))
