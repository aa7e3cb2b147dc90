"""`tether agent`: check, export, run, trace."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.agent import memory_cli
from tether.agent.domain import Domain, load_domain
from tether.agent.machine import Choice, Machine, pruned
from tether.agent.proof import refusals, require_proved
from tether.arguments import not_negative, positive
from tether.errors import Fault, InvalidInputError
from tether.results import header, require_writable, write_json

if TYPE_CHECKING:
    from tether.agent.evaluation import Ran, Setting
    from tether.agent.graph_run import GraphRun
    from tether.team.crew import Team
    from tether.team.roster import Roster


def add_parser(subparsers: Any) -> None:
    """Register `tether agent`."""
    parser = subparsers.add_parser("agent", help="the agent: task skills, their proof, runs and traces")
    commands = parser.add_subparsers(metavar="ACTION", required=True)
    _add_check(commands)
    _add_export(commands)
    _add_run(commands)
    _add_trace(commands)
    memory_cli.add_parser(commands)


def _add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="prove that skills and tasks hold; refused ones with their reason")
    _domain_argument(parser)
    parser.add_argument("--planner", action="store_true", help="ask Aries and Unified Planning, too (extra `agent`)")
    parser.set_defaults(run=_check)


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="write the domain as PDDL and HDDL (extra `agent`)")
    parser.add_argument("folder", type=Path, help="where to")
    _domain_argument(parser)
    parser.set_defaults(run=_export)


def _add_run(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a task in the simulated world")
    parser.add_argument("task", help="a task of the domain")
    parser.add_argument("--world-task", default="fetch", help="the world's task (default: %(default)s)")
    parser.add_argument("--profile", default="real", help="default: %(default)s")
    parser.add_argument("--policy", default="student", help="whose eyes and fusion: student or classic")
    parser.add_argument("--episodes", type=positive, default=1, help="default: %(default)s")
    parser.add_argument("--seed", type=not_negative, default=0, help="of the first episode")
    parser.add_argument("--script", action="store_true", help="call the skills in a fixed script instead")
    parser.add_argument(
        "--mishap", action="append", default=[], metavar="NAME", help="put into the world; given twice: in turn"
    )
    parser.add_argument("--graph", action="store_true", help="through the live ROS 2 nodes, in lockstep")
    parser.add_argument(
        "--agents", default=None, metavar="NAME,…", help="each agent a process with skills of its own (`agent`)"
    )
    parser.add_argument("--realtime", action="store_true", help="with --graph: in real time")
    parser.add_argument("--bag", type=Path, default=None, metavar="FOLDER", help="with --graph: record the run there")
    parser.add_argument(
        "--memory", type=Path, default=None, metavar="FOLDER", help="begin with what worked before, and learn (`agent`)"
    )
    memory_cli.add_server_argument(parser)
    parser.add_argument("--runs", type=Path, default=None, help="folder for graphs and requests to the operator")
    parser.add_argument("--json", type=Path, default=None, help="result file; written after every episode")
    _domain_argument(parser)
    parser.set_defaults(run=_run)


def _add_trace(commands: Any) -> None:
    parser = commands.add_parser("trace", help="a run step by step, and where its judgement went wrong")
    parser.add_argument("graph", type=Path, metavar="RUN", help="a run's folder, its graph.json, or a recording")
    parser.add_argument(
        "--task-id", default=None, metavar="ID", help="of a recording, or of a folder of runs: this task alone"
    )
    parser.add_argument("--dot", type=Path, default=None, help="write the graph for Graphviz there")
    parser.set_defaults(run=_trace)


def _domain_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--domain", type=Path, default=None, help="folder with domain.yaml, skills/ and tasks/")


def _check(arguments: argparse.Namespace) -> int:
    begun_s = time.perf_counter()
    domain = load_domain(arguments.domain)
    found = refusals(domain)
    spent_ms = (time.perf_counter() - begun_s) * 1e3
    say = sys.stdout.write
    for refusal in found:
        say(f"refused  {refusal.name}: {refusal.rule}: {refusal.reason}\n")
    objections: dict[str, str] = {}
    if arguments.planner and not found:
        from tether.agent.planning import Planner

        planner = Planner(domain)
        begun_s = time.perf_counter()
        objections = planner.second_opinion()
        planner_ms = (time.perf_counter() - begun_s) * 1e3
        for where, what in objections.items():
            say(f"planner objects  {where}: {what}\n")
        say(f"planner: {len(objections)} objections, {planner_ms:.0f} ms\n")
    modes = sum(len(skill.failures) for skill in domain.skills.values())
    say(f"{len(domain.skills)} skills, {len(domain.tasks)} tasks, {modes} failure modes: ")
    say(f"{len(found)} refused, {spent_ms:.0f} ms\n")
    return 1 if found or objections else 0


def _export(arguments: argparse.Namespace) -> int:
    from tether.agent.planning import Planner

    domain = load_domain(arguments.domain)
    require_proved(domain)
    for path in Planner(domain).export(arguments.folder):
        sys.stdout.write(f"{path}\n")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from tether.agent.evaluation import Setting, episodes, summary
    from tether.agent.graph_run import run_graph
    from tether.agent.injection import Mishap
    from tether.assembly import require_settings
    from tether.progress import Progress

    _refuse_what_does_not_go_together(arguments)
    names = [mishap.value for mishap in Mishap]
    unknown = [name for name in arguments.mishap if name not in names]
    if unknown:
        raise InvalidInputError("run", [Fault("--mishap", name, f"one of {', '.join(names)}") for name in unknown])
    domain = load_domain(arguments.domain)
    require_proved(domain)
    require_settings(arguments.policy, arguments.world_task, arguments.profile)
    if arguments.task not in domain.tasks:
        known = ", ".join(domain.tasks)
        raise InvalidInputError("run", [Fault("task", repr(arguments.task), f"one of {known}")])
    if arguments.json is not None:
        require_writable(arguments.json)
    mishaps = tuple(Mishap(name) for name in arguments.mishap) or (Mishap.NONE,)
    policy, script = arguments.policy, arguments.script
    setting = Setting(arguments.task, arguments.world_task, arguments.profile, policy, script, mishaps)
    ways = _ways(domain, arguments).ways
    seeds = range(arguments.seed, arguments.seed + arguments.episodes)
    progress = Progress(arguments.episodes, "episodes")
    head = {**header("agent", arguments.seed), "task": setting.task, "profile": setting.profile}
    head |= {
        "policy": setting.policy,
        "script": setting.script,
        "agents": arguments.agents,
        "ways": dict(ways),
        "mishaps": arguments.mishap,
    }
    head |= {"graph": ("realtime" if arguments.realtime else "lockstep") if arguments.graph else "none"}
    ran: list[Ran] = []

    def take(one: Ran) -> None:
        ran.append(one)
        progress.step(one.failure or "")
        if arguments.json is not None:
            write_json(arguments.json, {**head, **summary(ran)}, last=len(ran) == len(seeds))

    with contextlib.ExitStack() as stack:
        memory = memory_cli.opened(arguments, domain, head["commit"], stack)
        roster = _roster(arguments, domain)
        if arguments.graph:
            socket = None if memory is None else memory_cli.served(memory, domain, stack)
            run_graph(_graph_run(arguments, setting, seeds, socket, roster), take)
        else:
            team = None if roster is None else _team(roster, domain, ways, stack)
            for one in episodes(setting, domain, ways, seeds, arguments.runs, memory, team):
                take(one)
    _say_summary(summary(ran))
    return 0


def _graph_run(
    arguments: argparse.Namespace, setting: Setting, seeds: range, memory: Path | None, roster: Roster | None
) -> GraphRun:
    from tether.agent.graph_run import GraphRun

    lockstep, agents = not arguments.realtime, () if roster is None else tuple(roster.agents)
    files = arguments.runs, arguments.bag, arguments.domain
    return GraphRun(setting, seeds, lockstep, *files, memory=memory, agents=agents)


def _refuse_what_does_not_go_together(arguments: argparse.Namespace) -> None:
    faults = []
    for name in ("realtime", "bag"):
        if getattr(arguments, name) and not arguments.graph:
            faults.append(Fault(f"--{name}", "no --graph", "--graph with it"))
    for name in ("realtime", "script"):
        if getattr(arguments, name) and arguments.agents is not None:
            faults.append(Fault("--agents", f"--{name}", "one of them"))
    if "agent_killed" in arguments.mishap and arguments.agents is None:
        faults.append(Fault("--mishap", "agent_killed without --agents", "agents that can be killed"))
    if faults:
        raise InvalidInputError("run", faults)


def _roster(arguments: argparse.Namespace, domain: Domain) -> Roster | None:
    if arguments.agents is None:
        return None
    from tether.team.roster import load_roster

    return load_roster(domain, [name.strip() for name in arguments.agents.split(",")])


def _team(roster: Roster, domain: Domain, ways: Mapping[str, str], stack: contextlib.ExitStack) -> Team:
    from tether.team.crew import Team

    return stack.enter_context(Team(domain, roster, ways))


def _ways(domain: Domain, arguments: argparse.Namespace) -> Choice:
    """The ways that this machine allows; refused where a skill of the task has none."""
    excluded = () if arguments.policy.startswith("student") else ("student",)
    choice = pruned(domain, Machine.here(camera=True), excluded)
    task = domain.tasks[arguments.task]
    needed = {step for method in task.methods.values() for step in domain.flattened(task, method)}
    lost = sorted(needed & set(choice.without(domain)))
    if lost:
        lacks = {way: "; ".join(what) for way, what in choice.dropped.items()}
        faults = [Fault(way, what, "a machine that has it") for way, what in lacks.items() if way.split("/")[0] in lost]
        raise InvalidInputError(f"plan of {task.name}", faults, "free memory, or choose another way")
    return choice


def _say_summary(figures: dict[str, Any]) -> None:
    say = sys.stdout.write
    share, low, high = (100.0 * figures[name] for name in ("success_rate", "wilson_low", "wilson_high"))
    say(f"{figures['successes']} of {figures['episodes']}: {share:.1f} % ({low:.1f} to {high:.1f} %)\n")
    say(f"retries {figures['retries']}, recovered {figures['recovered']}, asked a person {figures['needs_operator']}, ")
    say(f"false claims {figures['false_claims']}, unnamed errors {figures['unnamed_errors']}\n")
    say(f"decisions {figures['decisions']}, begun from memory {figures['begun_from_memory']}\n")
    kept = figures["deadlines"]
    say(f"deadline met {kept['met']}, missed {kept['missed']}, ended otherwise before it {kept['ended_otherwise']}")
    say(f"; slack {kept['slack_min_s']:.2f} s at least, p50 {kept['slack_p50_s']:.2f} s\n" if kept["met"] else "\n")
    if "team" in figures:
        _say_team(figures["team"])
    for name, count in Counter(figures["failures"]).most_common():
        say(f"  {count} x {name}\n")


def _say_team(team: dict[str, Any]) -> None:
    say = sys.stdout.write
    steps = ", ".join(f"{name} {count}" for name, count in team["steps"].items())
    say(f"steps: {steps}; agents started anew {team['restarts']}\n")
    for what, times in team["handover_ms"].items():
        if times["n"]:
            p50, p99, most = (f"{times[name]:.0f} ms" for name in ("p50", "p99", "max"))
            say(f"  hand-over {what}: p50 {p50}, p99 {p99}, max {most} of {times['n']}\n")


def _trace(arguments: argparse.Namespace) -> int:
    from tether.agent.graph import RunGraph

    if arguments.task_id is not None and (arguments.graph / arguments.task_id / "graph.json").exists():
        arguments.graph = arguments.graph / arguments.task_id
    if arguments.graph.is_dir() and not (arguments.graph / "graph.json").exists():
        return _trace_recording(arguments)
    path = arguments.graph / "graph.json" if arguments.graph.is_dir() else arguments.graph
    graph = RunGraph.read(path)
    say = sys.stdout.write
    say(f"{graph.task} {graph.task_id} {json.dumps(dict(graph.parameters))}: {graph.outcome} {graph.failure or ''}\n")
    say("" if graph.timeliness is None else f"{graph.timeliness}\n")
    for number, edge in enumerate(graph.edges):
        spent_s = (graph.nodes[edge.target].stamp_ns - graph.nodes[edge.source].stamp_ns) * 1e-9
        at_s = graph.nodes[edge.source].stamp_ns * 1e-9
        who = f"{edge.agent}: " if edge.agent else ""
        say(f"{number + 1:3}  {at_s:7.2f} s  {who}{edge.skill} ({edge.way}), attempt {edge.attempt}, {spent_s:.2f} s: ")
        say(f"{edge.failure or edge.status}  [{edge.why}]\n")
    for event in graph.breakers:
        say(f"breaker  {event.stamp_ns * 1e-9:7.2f} s  {event}\n")
    if (path.parent / "record.json").exists():
        from tether.team.crew import as_text

        say(as_text(path.parent / "record.json"))
    wrong = graph.judgements()
    if not wrong:
        say("the judgement went wrong nowhere\n")
    for first, judgement in enumerate(wrong):
        lead = "the judgement went wrong first" if first == 0 else "and again"
        say(f"{lead} at step {judgement.edge + 1}, {judgement.skill} ({judgement.kind}): ")
        say(f"expected {', '.join(judgement.expected)}; found {'; '.join(judgement.found)}\n")
    if arguments.dot is not None:
        from tether.files import replaced

        with replaced(arguments.dot) as file:
            file.write(graph.dot().encode())
    return 0


def _trace_recording(arguments: argparse.Namespace) -> int:
    from tether.agent.bag_trace import as_text, tasks_of

    tasks = tasks_of(arguments.graph)
    wanted = [task for task in tasks if arguments.task_id in (None, task.task_id)]
    if not wanted:
        known = ", ".join(task.task_id for task in tasks)
        raise InvalidInputError("recording", [Fault("--task-id", arguments.task_id, f"one of {known}")])
    for task in wanted:
        sys.stdout.write(as_text(task))
    return 0
