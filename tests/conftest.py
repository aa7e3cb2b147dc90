"""What tests of several folders share: DDS domains and Redis servers of their own, a recorded run, a tiny student."""

from __future__ import annotations

import importlib.util
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from tether.contracts import EpisodeResult
from tether.launch.domain import own_domain
from tether.memory.redis_server import RedisServer, find_server

# Triton's LLVM, which torch's optimisers load where it is installed, crashes in a process that has rendered by Mesa's.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]
# A shell has what it starts in the background ignore SIGINT; what a test starts would as well, and not be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# No test fails because the machine is busy; where one says nothing about a deadline, there is none.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


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
        run = GraphRun(setting, 1, bag=folder / "bag", log_dir=folder)
        return RecordedRun(folder / "bag", run_graph(run))


@pytest.fixture(scope="session")
def tiny_student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untrained student of the smallest size, as a training exports it."""
    torch = pytest.importorskip("torch", reason="training and export need torch (extra `train`)")
    pytest.importorskip("onnxruntime", reason="the student runs on onnxruntime")
    from tether.assembly import skills
    from tether.student.export import export_student
    from tether.student.network import NetworkConfig, StudentNet

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny_student")
    net = StudentNet(NetworkConfig(width=16, heads=4, queries=2, hidden=8, policy=16))
    export_student(net, folder, skills(), camera=False, version="0", seed=0, trained_on={"nothing": "yet"})
    return folder


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A real Redis server of the test's own, on a short path: a socket's may have 107 bytes."""
    pytest.importorskip("redis", reason="needs the package redis (extra agent)")
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    with tempfile.TemporaryDirectory(prefix="tether-redis-") as folder, RedisServer(Path(folder) / "r") as server:
        yield server
