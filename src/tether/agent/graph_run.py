"""Episodes of an agent's task through the live nodes: starts launch/agent.launch.xml, and joins what the agent says of
each task to what the world's judge says of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.agent.evaluation import Ran, Setting
from tether.agent.execution import WORLD_ENDED
from tether.agent.graph_agent import read_records
from tether.contracts import EpisodeResult
from tether.eval.graph import GraphRunError, outcome_so_far, require_recorded
from tether.eval.journal import read_results
from tether.launch.domain import own_domain
from tether.launch.reader import read
from tether.launch.runner import Runner
from tether.resources import resource_path


@dataclass(frozen=True)
class GraphRun:
    """How the graph is run. runs: takes each run's graph, and requests; bag: folder of the recording, None for none.
    domain_folder: of the agent's domain, None for the one that ships; memory: socket of `tether.memory.link`. agents:
    names of those that share the task, none where one does it all."""

    setting: Setting
    seeds: Sequence[int]
    lockstep: bool
    runs: Path | None = None
    bag: Path | None = None
    domain_folder: Path | None = None
    log_dir: Path | None = None
    memory: Path | None = None
    agents: tuple[str, ...] = ()

    def arguments(self, records: Path, results: Path, domain: int, team: Path | None = None) -> dict[str, str]:
        """Arguments of the launch file. team: folder of the agents' sockets and record."""
        s = self.setting
        arguments = {
            "agent_task": s.task,
            "task": s.world_task,
            "profile": s.profile,
            "policy": s.policy,
            "script": "true" if s.script else "false",
            "mishaps": ",".join(mishap.value for mishap in s.mishaps),
            "mode": "lockstep" if self.lockstep else "realtime",
            "episodes": str(len(self.seeds)),
            "seed": str(self.seeds[0]),
            "record": "true" if self.bag is not None else "false",
            "records": str(records),
            "results": str(results),
            "domain": str(domain),
        }
        if self.agents:
            arguments["agents"] = ",".join(self.agents)
        folders = {"bag": self.bag, "runs": self.runs, "agent_domain": self.domain_folder, "memory": self.memory}
        folders["team"] = team
        return arguments | {name: str(folder.absolute()) for name, folder in folders.items() if folder is not None}


def run_graph(run: GraphRun, on_ran: Callable[[Ran], None]) -> list[Ran]:
    """Run the graph to its end; episodes in order of seeds. Everything it started is gone afterwards.

    Raises GraphRunError, naming the process that failed, where episodes are missing at the end.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tether-run-"))
        domain = stack.enter_context(own_domain())
        team = _team_folder(Path(folder), stack) if run.agents else None
        records_file, results_file = Path(folder) / "records.jsonl", Path(folder) / "results.jsonl"
        arguments = run.arguments(records_file, results_file, domain, team)
        plan = read(resource_path("launch", "agent.launch.xml"), arguments)
        ran: list[Ran] = []
        with Runner(plan, log_dir=run.log_dir, scratch=Path(folder)) as runner:
            outcome = None
            while outcome is None:
                outcome = outcome_so_far(runner)
                results = read_results(results_file)[len(ran) :]
                records = read_records(records_file)  # the agent writes before the world does, so its word is there
                for result in results:
                    number = len(ran)
                    mishap = run.setting.mishaps[number % len(run.setting.mishaps)].value
                    ran.append(_joined(records.get(result.spec.seed), result, mishap))
                    on_ran(ran[-1])
    if len(ran) < len(run.seeds):
        raise GraphRunError(f"the graph ran {len(ran)} of {len(run.seeds)} episodes: {outcome.why()}")
    if run.bag is not None:
        require_recorded(run.bag)
    return ran


def _team_folder(folder: Path, stack: contextlib.ExitStack) -> Path:
    """With the server of the team's record, which outlives an agent's node that is killed, and nothing else."""
    from tether.team.crew import record_server

    team = folder / "team"
    team.mkdir(mode=0o700)
    stack.enter_context(record_server(team))
    return team


def _joined(record: dict[str, Any] | None, result: EpisodeResult, mishap: str) -> Ran:
    """The agent's own word, and the judge's. Where the world ended before the agent, only the judge's is there."""
    seed = result.spec.seed
    if record is None:
        failure = f"{WORLD_ENDED}: {result.failure or 'before the agent had said anything'}"
        return Ran(seed, mishap, result.success, False, "failed", failure, 0, result.duration_s, ())
    return Ran(
        seed=seed,
        mishap=mishap,
        success=result.success,
        claimed=record["status"] == "done",
        status=record["status"],
        failure=record["failure"],
        retries=record["retries"],
        duration_s=record["duration_s"],
        skills=tuple(tuple(skill) for skill in record["skills"]),
        decisions=record["decisions"],
        recalled=record["recalled"],
        team=record.get("team"),
        **record["deadline"],
    )
