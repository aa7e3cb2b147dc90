"""fetch by several agents through the live graph: as the core loop's team does it, kills and all, recorded, rebuilt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_tools import messages_of, processes_in

pytest.importorskip("redis", reason="needs the package redis (extra agent)")

from tether import topics
from tether.agent.bag_trace import as_text, tasks_of
from tether.agent.domain import load_domain
from tether.agent.evaluation import Ran, Setting, episodes, summary
from tether.agent.graph_run import GraphRun, run_graph
from tether.agent.injection import Mishap
from tether.agent.machine import Machine, pruned
from tether.check import check_bag
from tether.contracts import Primitive
from tether.memory.redis_server import find_server
from tether.team.crew import Team
from tether.team.roster import load_roster

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(900)]
AGENTS = ("perception", "base", "arm")
SETTING = Setting("fetch", "fetch", "real", "classic", False, (Mishap.AGENT_KILLED, Mishap.WORKER_KILLED))
SEEDS = range(1001, 1003)


def core() -> list[Ran]:
    """What the core loop's team makes of the episodes."""
    domain = load_domain()
    ways = pruned(domain, Machine(4000, camera=True, fp16=False, gpu=False), excluded=("student",)).ways
    with Team(domain, load_roster(domain, AGENTS), ways) as team:
        return list(episodes(SETTING, domain, ways, SEEDS, None, team=team))


def steps_of(one: Ran) -> list[dict[str, Any]]:
    assert one.team is not None
    return list(one.team["steps"])


def alike(one: Ran) -> tuple[Ran, list[tuple[object, ...]]]:
    """Without process ids, task ids and times of the steady clock, which differ from run to run."""
    steps = [(s["skill"], s["agent"], s["status"], (s["failure"] or "").partition(":")[0]) for s in steps_of(one)]
    return replace(one, team=None), steps


def test_agents_fetch_through_the_graph_as_in_the_core_loop_and_the_recording_tells_whose_a_skill_was(
    domain: int, tmp_path: Path
) -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    bag = tmp_path / "bag"
    ran = run_graph(GraphRun(SETTING, SEEDS, lockstep=True, runs=tmp_path, bag=bag, agents=AGENTS), lambda one: None)

    assert processes_in(domain) == []
    assert [alike(one) for one in ran] == [alike(one) for one in core()]
    assert all(one.success for one in ran)
    (lost,) = [step for step in steps_of(ran[0]) if step["status"] == "outcome_unknown"]
    assert lost["failure"].startswith("agent_lost: ")
    assert [s["failure"].partition(":")[0] for s in steps_of(ran[1]) if s["status"] != "done"] == ["worker_lost"]
    team = summary(ran)["team"]
    assert team["restarts"] == 1
    assert team["handover_ms"]["agent_to_agent"]["n"] >= 8

    report = check_bag(bag)
    assert report.identical, report.as_table()
    orders, reports = messages_of(bag, topics.SKILL_ORDER), messages_of(bag, topics.SKILL_REPORT)
    assert report.steps["policy"] == len(reports)
    told = {(order.call_id, order.agent, order.agent_pid) for order in orders if order.state == order.RUN}
    assert told == {(s["call_id"], s["agent"], s["pid"]) for one in ran for s in steps_of(one)}
    assert {order.agent for order in orders if order.state != order.RUN} == {""}

    gone = [(int(r.episode), int(r.decision_id)) for r in reports if r.state == r.AGENT_LOST]
    failed = [(int(r.episode), int(r.decision_id)) for r in reports if r.state == r.FAULT]
    assert [episode for episode, _ in gone + failed] == [0, 1]
    primitives = {
        (int(d.action.episode), int(d.action.decision_id)): d.action.primitive
        for d in messages_of(bag, topics.DECISION)
    }
    assert {primitives[key] for key in gone + failed} == {Primitive.HOLD}
    said = as_text(tasks_of(bag)[0])
    assert f"{lost['agent']}: {lost['call_id']} (direct)" in said
    assert "agent lost: a hold decided after 0 ms" in said
    assert (tmp_path / "fetch-1001" / "record.json").exists()
