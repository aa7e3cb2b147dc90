"""Agents in processes of their own, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tether.agent.domain import Domain, load_domain
from tether.memory.redis_server import RedisServer, connect
from tether.safety.heartbeat import AgentRule, Consequence
from tether.team.executor import TeamExecutor
from tether.team.processes import Processes
from tether.team.roster import load_roster

AGENTS = ("perception", "base", "arm")
QUICK = AgentRule("agent/", Consequence.NAME, scan_s=0.5, offline_s=6.0, ttl_s=12.0)
"""Heartbeats of which a test need not wait 15 s for the loss."""


def direct_ways(domain: Domain) -> dict[str, str]:
    return dict.fromkeys(domain.skills, "direct")


class Crew:
    """Three agents in processes of their own on a real server."""

    def __init__(self, domain: Domain, processes: Processes, server: RedisServer) -> None:
        self.domain, self.processes, self.server = domain, processes, server
        self.client = connect(server.url)

    def executor(self, robot: object, task_id: str) -> TeamExecutor:
        self.processes.begin(task_id, seed=0)
        ways = direct_ways(self.domain)
        return TeamExecutor(self.domain, robot, ways, self.processes, self.client, task_id)  # type: ignore[arg-type]


@contextmanager
def crew_of(server: RedisServer, folder: Path, restarts: int = 6, rule: AgentRule = QUICK) -> Iterator[Crew]:
    domain = load_domain()
    roster = replace(load_roster(domain, AGENTS), restarts=restarts)
    client = connect(server.url)
    with Processes(domain, roster, direct_ways(domain), client, server.url, folder, rule) as processes:
        yield Crew(domain, processes, server)
