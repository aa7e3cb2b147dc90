"""Episodes of a task through the agent or through a fixed script, with mishaps, judged by the world's truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.agent.calls import Status
from tether.agent.domain import Domain
from tether.agent.experience import Experience
from tether.agent.graph import RunGraph
from tether.agent.injection import Injector, Mishap
from tether.agent.observing import place_of
from tether.agent.robot import Robot
from tether.agent.running import NEEDS_OPERATOR, OperatorRequest, TaskRunner
from tether.agent.script import run_script
from tether.agent.sim import SimRobot
from tether.eval.statistics import wilson
from tether.files import replaced
from tether.rollout import EPISODE_START_NS

if TYPE_CHECKING:
    from tether.team.crew import Team


@dataclass(frozen=True)
class Setting:
    """What is run. script: the fixed script in the agent's place. mishaps: taken in turn, one an episode."""

    task: str
    world_task: str
    profile: str
    policy: str
    script: bool
    mishaps: tuple[Mishap, ...]


@dataclass(frozen=True)
class Ran:
    """One episode. success: the judge says that the goal holds; claimed: the run said so itself.

    decisions: see `tether.agent.running.TaskRun`; recalled: version of the chain it began with. deadline_s, slack_s,
    in_time: see `tether.agent.deadline.Timeliness`; None where nobody watched, as with a script. team: see
    `tether.team.crew.Team.told`; None where one agent does it all.
    """

    seed: int
    mishap: str
    success: bool
    claimed: bool
    status: str
    failure: str | None
    retries: int
    duration_s: float
    skills: tuple[tuple[str, str, str | None, float], ...]
    decisions: int = 0
    recalled: str | None = None
    deadline_s: float | None = None
    slack_s: float | None = None
    in_time: bool | None = None
    team: dict[str, Any] | None = None


def episodes(
    setting: Setting,
    domain: Domain,
    ways: Mapping[str, str],
    seeds: Sequence[int],
    folder: Path | None,
    memory: Experience | None = None,
    team: Team | None = None,
) -> Iterator[Ran]:
    """Run an episode a seed. folder: takes each run's graph, and the request and picture where a person is needed.
    memory: the agent's, from episode to episode; a script has none. team: does the steps, where it is not one agent."""
    linked = None if team is None else team.policy
    with SimRobot(setting.policy, setting.world_task, setting.profile, domain.folder, linked) as robot:
        for number, seed in enumerate(seeds):
            mishap = setting.mishaps[number % len(setting.mishaps)]
            values = {p.name: p.default for p in domain.tasks[setting.task].parameters}
            robot.begin(seed, place_of(values), Injector(mishap, seed))
            yield _episode(setting, domain, ways, robot, seed, mishap, folder, memory, team)


def _episode(
    setting: Setting,
    domain: Domain,
    ways: Mapping[str, str],
    robot: SimRobot,
    seed: int,
    mishap: Mishap,
    folder: Path | None,
    memory: Experience | None,
    team: Team | None,
) -> Ran:
    task_id = f"{setting.task}-{mishap.value}-{seed}"
    retries, skills = 0, tuple[tuple[str, str, str | None, float], ...]()
    decisions, recalled = 0, None
    kept: dict[str, Any] = {}
    if setting.script:
        outcome = run_script(domain, robot, ways, setting.task, task_id)
    else:
        executor = None if team is None else team.executor(robot, task_id, seed)
        run = TaskRunner(domain, robot, ways, memory, executor=executor).run(setting.task, task_id, {})
        outcome, retries, skills = run.outcome, run.retries, skills_of(run.graph)
        kept = timeliness_of(run.graph)
        decisions, recalled = run.decisions, run.recalled.sha256 if run.recalled is not None else None
        if folder is not None:
            save_run(folder / task_id, run.graph, run.request, robot)
        if team is not None and executor is not None:
            kept |= {"team": team.told(executor, None if folder is None else folder / task_id)}
    judged = robot.judged()
    success = all(judged.get(name, outcome.status is Status.DONE) for name in domain.tasks[setting.task].goal)
    return Ran(
        seed=seed,
        mishap=mishap.value,
        success=success,
        claimed=outcome.status is Status.DONE,
        status=outcome.status.value,
        failure=outcome.failure,
        retries=retries,
        duration_s=(robot.now_ns() - EPISODE_START_NS) * 1e-9,
        skills=skills,
        decisions=decisions,
        recalled=recalled,
        **kept,
    )


def save_run(folder: Path, graph: RunGraph, request: OperatorRequest | None, robot: Robot) -> None:
    """graph.json and graph.dot; where a person is needed request.json and picture.png, too."""
    graph.save(folder / "graph.json")
    with replaced(folder / "graph.dot") as file:
        file.write(graph.dot().encode())
    if request is None:
        return
    facts = {fact.name: fact.value for fact in robot.facts.values()}
    content = {**asdict(request), "facts": facts, "evidence": dict(robot.evidence), "picture": "picture.png"}
    content |= {"deadline": None if graph.timeliness is None else graph.timeliness.fields()}
    with replaced(folder / "request.json") as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
    picture = robot.picture()
    if picture is not None:
        from PIL import Image

        with replaced(folder / "picture.png") as file:
            Image.fromarray(picture).save(file, format="png")


def summary(ran: Sequence[Ran]) -> dict[str, Any]:
    """Figures over episodes. Share of success with Wilson's interval; means of each skill where it was done."""
    successes = sum(r.success for r in ran)
    low, high = wilson(successes, len(ran))
    times: dict[str, list[float]] = {}
    failures: Counter[str] = Counter()
    for r in ran:
        for name, _, failure, spent_s in r.skills:
            if failure is None:
                times.setdefault(name, []).append(spent_s)
            else:
                failures[f"{name}: {failure.partition(':')[0]}"] += 1
    told = [r.team for r in ran if r.team is not None]
    named = sum((r.failure or "").startswith(NEEDS_OPERATOR) for r in ran)
    done = [r.duration_s for r in ran if r.success]
    return {
        "episodes": len(ran),
        "successes": successes,
        "success_rate": successes / max(len(ran), 1),
        "wilson_low": low,
        "wilson_high": high,
        "false_claims": sum(r.claimed and not r.success for r in ran),
        "needs_operator": named,
        "unnamed_errors": sum(not r.claimed and not r.failure for r in ran),
        "retries": sum(r.retries for r in ran),
        "decisions": sum(r.decisions for r in ran),
        "begun_from_memory": sum(r.recalled is not None for r in ran),
        "deadlines": _deadlines(ran),
        "recovered": sum(r.success and r.retries > 0 for r in ran),
        "mean_time_s": float(np.mean(done)) if done else None,
        "failures": dict(Counter(r.failure.partition(" (")[0] for r in ran if r.failure)),
        "skill_failures": dict(failures),
        "skill_mean_s": {name: float(np.mean(spent)) for name, spent in sorted(times.items())},
        **({"team": _team_figures(told)} if told else {}),
        "per_episode": [asdict(r) for r in ran],
    }


def _team_figures(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from tether.team.crew import figures

    return figures(told)


def timeliness_of(graph: RunGraph) -> dict[str, Any]:
    """A run's fields of `Ran` that its deadline is told by."""
    kept = graph.timeliness
    if kept is None:
        return {}
    return {"deadline_s": kept.deadline_s, "slack_s": kept.slack_s, "in_time": kept.in_time}


def _deadlines(ran: Sequence[Ran]) -> dict[str, Any]:
    """How many were met, missed, or had time left when the task ended otherwise; slack in s, of those that were met."""
    watched = [r for r in ran if r.deadline_s is not None]
    slack = [r.slack_s for r in watched if r.in_time and r.slack_s is not None]
    return {
        "met": len(slack),
        "missed": sum(r.in_time is False for r in watched),
        "ended_otherwise": sum(r.in_time is None for r in watched),
        "slack_min_s": min(slack) if slack else None,
        "slack_p50_s": float(np.median(slack)) if slack else None,
    }


def skills_of(graph: RunGraph) -> tuple[tuple[str, str, str | None, float], ...]:
    """Skill, way, failure and seconds of each call of a run."""
    return tuple(
        (
            edge.skill,
            edge.way,
            edge.failure,
            (graph.nodes[edge.target].stamp_ns - graph.nodes[edge.source].stamp_ns) * 1e-9,
        )
        for edge in graph.edges
    )
