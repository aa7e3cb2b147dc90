"""What tests of several folders share: DDS domains of their own, and one recorded run of the whole graph."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tether.contracts import EpisodeResult
from tether.launch.domain import own_domain


@contextmanager
def reserved_domain() -> Iterator[int]:
    """A ROS domain that no other test or run on this machine has, seen on this machine only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROS_DOMAIN_ID", raising=False)
        with own_domain() as number:
            patch.setenv("ROS_DOMAIN_ID", str(number))
            patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
            yield number


@pytest.fixture
def domain() -> Iterator[int]:
    """A ROS domain of the test's own."""
    with reserved_domain() as number:
        yield number


@dataclass(frozen=True)
class RecordedRun:
    """One episode of the classic policy through the live graph: every stage a process, in lockstep, recorded."""

    policy = "classic"
    task = "pick"
    profile = "real"
    seed = 0
    bag: Path
    results: list[EpisodeResult]


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    """Made once; tests that change the bag copy it."""
    if importlib.util.find_spec("rclpy") is None or importlib.util.find_spec("tether_msgs") is None:
        pytest.skip("needs rclpy and the built tether_msgs (make setup)")
    from tether.eval.graph import GraphRun, run_graph
    from tether.eval.result import Setting

    folder = tmp_path_factory.mktemp("recorded_run")
    setting = Setting(RecordedRun.policy, RecordedRun.task, RecordedRun.profile, True, RecordedRun.seed)
    with reserved_domain():
        run = GraphRun(setting, 1, lockstep=True, bag=folder / "bag", log_dir=folder)
        return RecordedRun(folder / "bag", run_graph(run))
