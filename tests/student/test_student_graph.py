"""The student through the live graph: the core loop's decisions bit for bit, and replay's check rebuilds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from student_tools import short_task

pytest.importorskip("rclpy", reason="needs ROS 2's rclpy (make setup)")
pytest.importorskip("tether_msgs", reason="needs the built interfaces (make setup)")

from tether import topics
from tether.bags.reader import open_bag
from tether.check import check_bag
from tether.codec import convert, decode, encode
from tether.contracts import EpisodeResult
from tether.eval.graph import GraphRun, run_graph
from tether.eval.result import Setting
from tether.rollout import Rollout

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(400)]


def test_student_in_the_graph_is_the_core_loop_and_its_recording_checks(
    domain: int, tmp_path: Path, tiny_student: Path
) -> None:
    policy, task = f"student@{tiny_student}", str(short_task(tmp_path))
    setting = Setting(policy, task, "real", True, 3)
    run = GraphRun(setting, 1, bag=tmp_path / "bag", composed=True)
    results = run_graph(run)
    assert run.bag is not None
    with open_bag(run.bag) as bag:
        wanted = [topics.DECISION, topics.EPISODE_START]
        messages = [
            (m.topic, decode(m.raw, next(t.type for t in wanted if t.name == m.topic)))
            for m in bag.messages(topics=[t.name for t in wanted])
        ]
    recorded = [msg for name, msg in messages if name == topics.DECISION.name]
    (start,) = (msg for name, msg in messages if name == topics.EPISODE_START.name)
    core: list[EpisodeResult] = []
    expected = []
    with Rollout(policy, task, "real") as rollout:
        for delivery, trace in rollout.ticks(3, convert.to_ns(start.stamp)):
            if trace is None and delivery.result is not None:
                core.append(delivery.result)
            elif trace is not None and trace.decision is not None:
                decision = replace(trace.decision, threads=int(recorded[0].threads))
                expected.append(encode(convert.decision_message(decision, 0)))
    assert results == core
    assert [encode(msg) for msg in recorded] == expected
    assert recorded[0].runtime.startswith("onnxruntime")
    report = check_bag(run.bag)
    assert report.identical, report.as_table()
    assert report.steps["policy"] == len(recorded)
