"""A team for a run of episodes: a server for its record, its agents' processes, and what hand-overs took."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tether.agent.domain import Domain
from tether.agent.robot import Robot
from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.memory.redis_server import RedisServer, connect, url_of
from tether.team import record
from tether.team.executor import Lender, StepTrace, TeamExecutor
from tether.team.policy import LinkedPolicy
from tether.team.processes import Processes
from tether.team.roster import Roster

RECORD = "record.json"
_SERVER = "r"
DECISIONS = "decisions.sock"
"""In the folder of a graph's team: where the policy's process is called."""
LIMIT_MS = 200.0
"""What a hand-over may take."""


def record_server(folder: Path) -> RedisServer:
    """The server of a team's record, in the team's folder. Raises InvalidInputError where there is no Redis server."""
    return RedisServer(folder / _SERVER)


class Team:
    """A context manager; leaving it ends every agent, and the server where it is the team's own."""

    def __init__(self, domain: Domain, roster: Roster, ways: Mapping[str, str], folder: Path | None = None) -> None:
        """folder: where somebody else keeps a `record_server`, and a policy's process is called at DECISIONS. None: a
        server of its own, and decisions are asked for by this process's `policy`."""
        self._domain, self._roster, self._ways, self._folder = domain, roster, ways, folder
        self.policy = LinkedPolicy(domain.folder)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Team:
        """Raises InvalidInputError where there is no Redis server."""
        with self._stack:
            folder = self._folder
            decisions = None if folder is None else folder / DECISIONS
            if folder is None:
                folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tether-team-")))
                self._stack.enter_context(record_server(folder))
            url = url_of(folder / _SERVER)
            self._client = connect(url)
            self.processes = self._stack.enter_context(
                Processes(self._domain, self._roster, self._ways, self._client, url, folder, decisions=decisions)
            )
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def executor(self, robot: Robot, task_id: str, seed: int, lender: Lender | None = None) -> TeamExecutor:
        """For one task, whose record the agents follow from now on. lender: the team's `policy` where None."""
        self.processes.begin(task_id, seed)
        lender = lender or self.policy
        return TeamExecutor(self._domain, robot, self._ways, self.processes, self._client, task_id, lender)

    def told(self, executor: TeamExecutor, folder: Path | None) -> dict[str, Any]:
        """Of a task that has ended: its steps with their agents, and what became of processes. folder: takes it with
        the whole record of the task, of every agent, as record.json."""
        happened = [asdict(happening) for happening in self.processes.happenings]
        told = {"steps": [asdict(step) for step in executor.steps], "happenings": happened}
        if folder is not None:
            content = {**told, "record": record.lines(executor.memory.changes())}
            with replaced(folder / RECORD) as file:
                file.write((json.dumps(content, indent=1) + "\n").encode())
        return told


def as_text(path: Path) -> str:
    """A task's record.json for people: every change of every agent in order, then what became of processes. Raises
    InvalidInputError where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        lines = [
            f"record {line['sequence']:4}  {line['stamp_ns'] * 1e-9:7.2f} s  {line['source']}: {line['change']}"
            + (f" to {line['agent']}" if line["agent"] else "")
            for line in content["record"]
        ]
        lines += [f"agent {h['agent']}, {h['at_s']:.2f} s after the begin: {h['what']}" for h in content["happenings"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fault = Fault(str(path), str(error) or type(error).__name__, "a record of a task")
        raise InvalidInputError("run", [fault], "`tether agent run --agents` writes one an episode") from error
    return "\n".join([*lines, ""])


def figures(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over tasks, from what `Team.told` gave: steps an agent, restarts, and times of hand-overs in ms.

    agent_to_agent: from right before one agent writes how its step ended, through the coordinator, until another has
    read its own; given: coordinator to agent; returned: back. after_restart: as the first, its taker started anew.
    """
    tasks = [[StepTrace(**step) for step in task["steps"]] for task in told]
    steps = [step for task in tasks for step in task]
    pairs = [(a, b) for task in tasks for a, b in pairwise(task) if a.agent != b.agent]
    happenings = [happening for task in told for happening in task["happenings"]]
    return {
        "steps": dict(Counter(step.agent for step in steps)),
        "restarts": sum(happening["what"] == "started anew" for happening in happenings),
        "handover_ms": {
            "agent_to_agent": _times((a.ended_ns, b.taken_ns) for a, b in pairs if not b.waited),
            "after_restart": _times((a.ended_ns, b.taken_ns) for a, b in pairs if b.waited),
            "given": _times((step.given_ns, step.taken_ns) for step in steps if not step.waited),
            "returned": _times((step.ended_ns, step.returned_ns) for step in steps),
        },
    }


def _times(spans: Any) -> dict[str, Any]:
    times = [(end - begin) * 1e-6 for begin, end in spans if begin is not None and end is not None]
    if not times:
        return {"n": 0}
    p50, p99 = (float(value) for value in np.percentile(times, [50, 99]))
    over = sum(time >= LIMIT_MS for time in times)
    return {"n": len(times), "p50": p50, "p99": p99, "max": max(times), f"at_or_above_{LIMIT_MS:g}": over}
