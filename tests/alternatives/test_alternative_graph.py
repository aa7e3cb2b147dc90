"""Alternatives in the live graph: the episodes of the core loop, recorded and rebuilt bit for bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tether import topics
from tether.bags.reader import open_bag
from tether.check import check_bag
from tether.codec import convert, decode
from tether.contracts import EpisodeResult
from tether.eval.graph import GraphRun, run_graph
from tether.eval.result import Setting
from tether.rollout import Rollout

pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("rclpy", "tether_msgs")),
        reason="needs rclpy and the built tether_msgs (make setup)",
    ),
]


def starts_ns(bag: Path) -> list[int]:
    with open_bag(bag) as reader:
        messages = list(reader.messages(topics=[topics.EPISODE_START.name]))
    return [convert.to_ns(decode(message.raw, topics.EPISODE_START.type).stamp) for message in messages]


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("wanted", ["diffusion", "staged"])
def test_the_graph_does_what_the_core_loop_does_and_its_recording_is_rebuilt(
    trained: tuple[Path, dict], wanted: str, tmp_path: Path
) -> None:
    policy = f"classic+{wanted}@{trained[0]}"
    run = GraphRun(Setting(policy, "pick", "real", True, 0), 1, bag=tmp_path / "bag", log_dir=tmp_path)
    results = run_graph(run)

    core: list[EpisodeResult | None] = []
    with Rollout(policy, "pick", "real") as rollout:
        for seed, start_ns in enumerate(starts_ns(tmp_path / "bag")):
            core += [delivery.result for delivery, trace in rollout.ticks(seed, start_ns) if trace is None]
    assert results == core

    report = check_bag(tmp_path / "bag")
    assert report.identical, report.as_table()
    assert report.steps["policy"] > 0
