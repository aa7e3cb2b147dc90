"""fetch through the live graph: the same episodes as in the core loop, mishaps and all, recorded and rebuilt."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from graph_tools import Listener, messages_of, processes_in, wait_for
from skill_caller import SkillCaller

from tether import topics
from tether.agent.bag_trace import as_text, tasks_of
from tether.agent.domain import load_domain
from tether.agent.evaluation import Ran, Setting, episodes
from tether.agent.graph_run import GraphRun, run_graph
from tether.agent.injection import Mishap
from tether.agent.machine import Machine, pruned
from tether.check import check_bag
from tether.contracts import Primitive
from tether.launch.reader import read
from tether.launch.runner import Runner
from tether.resources import resource_path

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(1500)]

MISHAPS = (Mishap.SLIP, Mishap.WORKER_KILLED, Mishap.UNREACHABLE)
SETTING = Setting("fetch", "fetch", "real", "classic", False, MISHAPS)
SEEDS = range(3)


@pytest.fixture(scope="module")
def core() -> list[Ran]:
    """What the core loop makes of the episodes."""
    domain = load_domain()
    ways = pruned(domain, Machine(4000, camera=True, fp16=False, gpu=False), excluded=("student",)).ways
    return list(episodes(SETTING, domain, ways, SEEDS, None))


@pytest.mark.usefixtures("domain")
def test_the_graph_does_what_the_core_loop_does_and_its_recording_says_how(core: list[Ran], tmp_path: Path) -> None:
    bag, runs = tmp_path / "bag", tmp_path / "runs"
    said: list[Ran] = []
    ran = run_graph(GraphRun(SETTING, SEEDS, lockstep=True, runs=runs, bag=bag), said.append)

    assert said == ran
    assert [replace(one, failure=_name(one.failure)) for one in ran] == [
        replace(one, failure=_name(one.failure)) for one in core
    ]
    slipped, killed, unreachable = ran
    assert slipped.success
    assert killed.success
    assert killed.retries >= 1
    assert (unreachable.success, unreachable.failure) == (False, "needs_operator: out_of_reach")
    assert (runs / "fetch-2" / "picture.png").read_bytes().startswith(b"\x89PNG")

    report = check_bag(bag)
    assert report.identical, report.as_table()
    assert report.steps["policy"] == len(messages_of(bag, topics.POLICY_OUTPUT))

    tasks = tasks_of(bag)
    assert [task.task_id for task in tasks] == ["fetch-0", "fetch-1", "fetch-2"]
    lost = [call for call in tasks[1].calls if call.lost_ns is not None]
    assert len(lost) == 1
    assert "worker" in lost[0].fault
    assert lost[0].hold_s == 0.0, "the very decision for which its worker was gone is a hold"
    assert "skill_fault" in as_text(tasks[1])
    reports = messages_of(bag, topics.SKILL_REPORT)
    held = {(int(r.episode), int(r.decision_id)) for r in reports if r.state != r.RUNNING}
    for decision in messages_of(bag, topics.DECISION):
        if (int(decision.action.episode), int(decision.action.decision_id)) in held:
            assert decision.action.primitive == Primitive.HOLD


def test_skills_are_called_through_a_live_graph_with_feedback_and_cancelled_and_nothing_is_left(domain: int) -> None:
    from action_msgs.msg import GoalStatus
    from tether_agent.skill_server import ACTION

    from tether_msgs.action import ExecuteSkill

    arguments = {"policy": "classic", "serve": "true", "record": "false", "mode": "lockstep", "episodes": "50"}
    plan = read(resource_path("launch", "agent.launch.xml"), {**arguments, "domain": str(domain)})
    with Runner(plan), SkillCaller(domain, ACTION) as caller:
        refused = caller.result(caller.send("a", "carry"))
        assert refused.result.outcome == ExecuteSkill.Result.REFUSED
        done = caller.result(caller.send("b", "find"))
        assert done.result.outcome == ExecuteSkill.Result.SUCCEEDED
        wait_for("feedback", lambda: {"find"} <= {message.feedback.step for message in caller.feedback})
        handle = caller.send("c", "fetch")
        wait_for("a skill of the task", lambda: any(m.feedback.step == "approach" for m in caller.feedback))
        caller.cancel(handle)
        ended = caller.result(handle)
        assert ended.status == GoalStatus.STATUS_CANCELED
        again = caller.result(caller.send("d", "find"))
        assert again.result.outcome in (ExecuteSkill.Result.SUCCEEDED, ExecuteSkill.Result.REFUSED)
    assert processes_in(domain) == []


@pytest.mark.usefixtures("domain")
def test_an_agent_that_is_killed_ends_the_run_by_its_name(domain: int, tmp_path: Path) -> None:
    import os

    from tether.eval.graph import GraphRunError

    run = GraphRun(replace(SETTING, mishaps=(Mishap.NONE,)), range(1), lockstep=True)
    caught: list[str] = []

    def go() -> None:
        try:
            run_graph(run, lambda one: None)
        except GraphRunError as error:
            caught.append(str(error))

    with Listener(domain, heard=[topics.SKILL_ORDER, topics.DECISION]) as listener:
        thread = threading.Thread(target=go)
        thread.start()
        wait_for(
            "an order", lambda: any(heard.msg.state == heard.msg.RUN for heard in listener.heard(topics.SKILL_ORDER))
        )
        (pid,) = [int(line.split()[0]) for line in processes_in(domain) if line.split()[1] == "agent"]
        os.kill(pid, 9)
        thread.join(300.0)
        assert not thread.is_alive()
    assert "agent" in caught[0]
    assert processes_in(domain) == []


def _name(failure: str | None) -> str | None:
    """A failure without what follows its name, which tells process ids."""
    return None if failure is None else failure.partition(" (")[0]
