"""The bridge's and the policy's node: arbiter, oracle and online training through the live graph, in lockstep."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from graph_tools import Listener, messages_of

from tether import topics
from tether.bridge.arbiter import Arbitration
from tether.bridge.spool import SpoolReader, shards_in
from tether.bridge.versions import publish, versions_in
from tether.check import check_bag
from tether.codec import convert, encode, sensors
from tether.contracts import Source, Stream
from tether.eval.graph import GraphRun, run_graph
from tether.eval.result import Setting
from tether.models.manifest import read_manifest
from tether.resources import resource_path
from tether.rollout import Rollout

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(600)]

FALLBACK, ORACLE = Arbitration.WITH_FALLBACK, Arbitration.ORACLE_TEACHER


def short_task(folder: Path, limit_s: float) -> Path:
    """`pick_moving` with a shorter time limit."""
    text = yaml.safe_load(resource_path("config", "tasks/pick_moving.yaml").read_text(encoding="utf-8"))
    text["success"]["time_limit_s"] = limit_s
    path = folder / "short.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def recorded_as_computed(bag: Path, setting: Setting) -> list[Any]:
    """Decisions of a recording of one episode, each asserted to be the core loop's, bit for bit."""
    recorded = messages_of(bag, topics.DECISION)
    (start,) = messages_of(bag, topics.EPISODE_START)
    expected = []
    with Rollout(setting.policy, setting.task, setting.profile, arbitration=setting.arbitration) as rollout:
        for _, trace in rollout.ticks(setting.seed, convert.to_ns(start.stamp)):
            if trace is not None and trace.decision is not None:
                decision = replace(trace.decision, threads=int(recorded[0].threads))
                expected.append(convert.decision_message(decision, 0))
    assert [msg.reason for msg in recorded] == [msg.reason for msg in expected]
    assert [encode(msg) for msg in recorded] == [encode(msg) for msg in expected]
    return recorded


def test_arbiter_in_the_graph_rules_as_in_the_core_loop_and_its_recording_checks(domain: int, tmp_path: Path) -> None:
    setting = Setting("student", "pick_moving", "real", True, 0, arbitration=FALLBACK)
    run = GraphRun(setting, 1, bag=tmp_path / "bag", composed=True, log_dir=tmp_path)
    with Listener(domain, watched=[topics.TRUTH]) as listener:
        run_graph(run)
    assert run.bag is not None
    recorded = recorded_as_computed(run.bag, setting)
    assert listener.publishers[topics.TRUTH.name] == set(), "a fallback needs no truth"
    switches = [msg for msg in recorded if "(from " in msg.reason]
    said = [sensors.event_data(m) for m in messages_of(run.bag, topics.EVENTS) if m.kind == "arbiter_switch"]
    assert [int(msg.action.decision_id) for msg in switches] == [event["decision_id"] for event in said]
    report = check_bag(run.bag)
    assert report.identical, report.as_table()
    assert report.steps["opd_bridge"] == len(recorded)


def test_oracle_teacher_in_the_graph_is_the_core_loops_and_alone_sees_the_truth(domain: int, tmp_path: Path) -> None:
    setting = Setting("classic", str(short_task(tmp_path, 1.5)), "ideal", True, 2, arbitration=ORACLE)
    run = GraphRun(setting, 1, bag=tmp_path / "bag", log_dir=tmp_path)
    with Listener(domain, watched=[topics.TRUTH]) as listener:
        run_graph(run)
    assert run.bag is not None
    recorded = recorded_as_computed(run.bag, setting)
    assert listener.named(topics.TRUTH) == {"world"}
    assert {msg.action.source for msg in recorded} == {Source.TEACHER.value}
    proposals = messages_of(run.bag, topics.POLICY_OUTPUT)
    assert not [ref for msg in proposals for ref in convert.refs_from(msg.used) if ref.stream is Stream.TRUTH]
    assert check_bag(run.bag).identical


@dataclass(frozen=True)
class OnlineRun(GraphRun):
    """A graph with a trainer's folders."""

    folder: Path = Path()

    def arguments(self, results: Path, domain: int) -> dict[str, str]:
        return {
            **super().arguments(results, domain),
            "spool": str(self.folder / "spool"),
            "versions": str(self.folder / "versions"),
        }


def test_student_that_is_taught_while_it_runs_takes_a_version_between_two_decisions(
    domain: int, tmp_path: Path, tiny_student: Path
) -> None:
    pytest.importorskip("torch", reason="the version is exported by a learner")
    from tether.assembly import skills
    from tether.bridge.learner import PolicyLearner

    learner = PolicyLearner(tiny_student, skills().sha256)
    setting = Setting(f"student@{tiny_student}", str(short_task(tmp_path, 3.0)), "real", True, 1)
    run = OnlineRun(setting, 3, bag=tmp_path / "bag", composed=True, log_dir=tmp_path, folder=tmp_path)

    def teach() -> None:
        deadline = time.monotonic() + 300.0
        while not shards_in(tmp_path / "spool") and time.monotonic() < deadline:
            time.sleep(0.05)
        shard = SpoolReader(tmp_path / "spool").take(1)[0]
        learner.train_step(shard)
        publish(tmp_path / "versions", lambda folder: learner.export(folder, {}))

    teacher = threading.Thread(target=teach)
    teacher.start()
    results = run_graph(run)
    teacher.join(10.0)
    assert len(results) == 3
    assert run.bag is not None
    ((_, version),) = versions_in(tmp_path / "versions")
    swaps = [m for m in messages_of(run.bag, topics.EVENTS) if m.kind == "model_swapped"]
    assert [sensors.event_data(m)["sha256"] for m in swaps] == [read_manifest(version).sha256]
    decisions = messages_of(run.bag, topics.DECISION)
    assert not [ref for msg in decisions for ref in convert.refs_from(msg.used) if ref.stream is Stream.TRUTH]
    shards = SpoolReader(tmp_path / "spool").take()
    assert shards
    assert {name for shard in shards for name in shard} >= {"input.features", "input.memory", "label.probability"}
