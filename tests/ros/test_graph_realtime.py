"""In real time: the gate stops what nobody steers, the world stops what nobody gates, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_tools import PATIENCE_S, Listener, assert_nothing_is_left, processes_in, shared_memory_of, wait_for

from tether import topics
from tether.codec import convert
from tether.launch.output import Line
from tether.launch.reader import read
from tether.launch.runner import EndReason, Runner
from tether.resources import resource_path

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.realtime, pytest.mark.timeout(400)]

EPISODES = 500
"""More than any test waits for."""
STOPPED_WITHIN_S = 2.0
"""A decision may be 0.5 s old and a command 0.1 s; the rest is for a machine that is busy with other things."""
SECOND_NS = 1_000_000_000


@contextmanager
def live_graph(domain: int, said: list[Line], **arguments: str) -> Iterator[Runner]:
    """The graph in real time, left to its lifecycle manager: the runner does not end it when a process fails."""
    words = {
        "policy": "scripted",
        "profile": "ideal",
        "mode": "realtime",
        "record": "false",
        "episodes": str(EPISODES),
        "domain": str(domain),
        **arguments,
    }
    plan = read(resource_path("launch", "sim.launch.xml"), words)
    with Runner(plan, sink=said.append, end_on_failure=False) as runner:
        yield runner


def is_said(said: list[Line], *words: str) -> Callable[[], bool]:
    return lambda: any(all(word in str(line) for word in words) for line in list(said))


def stamped(listener: Listener, topic: topics.Topic) -> list[tuple[int, Any]]:
    """What was heard, with the stamps of its headers."""
    return [(convert.to_ns(heard.msg.header.stamp), heard.msg) for heard in listener.heard(topic)]


def test_gate_stops_when_the_policy_freezes_and_world_when_the_gate_dies(domain: int) -> None:
    heard = [topics.VERDICT, topics.JOINT_COMMAND, topics.CMD_VEL, topics.EXECUTED, topics.DECISION]
    said: list[Line] = []
    with live_graph(domain, said) as runner:
        with Listener(domain, heard) as listener:
            wait_for("decisions", lambda: len(listener.heard(topics.DECISION)) > 20)
            memory = shared_memory_of(domain)
            assert memory, "the graph uses shared memory"
            with left_to_themselves(runner):
                freeze_policy(runner, listener)
                kill_gate(runner, listener)
        outcome = runner.wait(PATIENCE_S)
        assert outcome.reason is EndReason.PROCESS_EXITED
        assert outcome.failure is not None
        lost = [name for name in ("policy", "safety_supervisor") if is_said(said, "node_lost", f"'{name}'")()]
        assert lost, "the manager names a node"
    assert_nothing_is_left(domain, memory)


@contextmanager
def left_to_themselves(runner: Runner) -> Iterator[None]:
    """The manager would bring all down after 5 s of the policy's silence, which a busy machine spends on less."""
    manager = runner.processes["lifecycle_manager"].pid
    os.kill(manager, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(manager, signal.SIGCONT)


def freeze_policy(runner: Runner, listener: Listener) -> None:
    """The gate ticks on, and its set-points become and stay still. All by its own stamps: the test may hear late."""
    os.kill(runner.processes["policy"].pid, signal.SIGSTOP)
    frozen_ns, frozen_stamp_ns = time.monotonic_ns(), time.time_ns()
    still_stamp_ns = frozen_stamp_ns + round(STOPPED_WITHIN_S * SECOND_NS)

    def set_points(since_ns: int) -> Any:
        return np.array(
            [msg.position for stamp_ns, msg in stamped(listener, topics.JOINT_COMMAND) if stamp_ns > since_ns]
        )

    wait_for("a second of set-points that have to be still", lambda: len(set_points(still_stamp_ns)) >= 50)
    assert np.ptp(set_points(still_stamp_ns), axis=0).max() == 0.0, "set-points become and stay still"
    verdicts = [h.msg.steady_ns for h in listener.heard(topics.VERDICT) if h.msg.steady_ns > frozen_ns]
    assert max(np.diff(verdicts)) < STOPPED_WITHIN_S * SECOND_NS / 2, "the gate ticks on"
    twists = [msg.twist for stamp_ns, msg in stamped(listener, topics.CMD_VEL) if stamp_ns > still_stamp_ns]
    assert all((t.linear.x, t.linear.y, t.angular.z) == (0.0, 0.0, 0.0) for t in twists)


def kill_gate(runner: Runner, listener: Listener) -> None:
    """The world's own watchdog stops the robot."""
    os.kill(runner.processes["safety_supervisor"].pid, signal.SIGKILL)
    killed_ns = time.time_ns()

    def stops() -> list[int]:
        executed = listener.heard(topics.EXECUTED)
        stamps = [convert.to_ns(h.msg.sample.stamp) for h in executed if h.msg.watchdog_stop]
        return [stamp_ns for stamp_ns in stamps if stamp_ns > killed_ns]

    wait_for("the world's watchdog", stops)
    assert stops()[0] - killed_ns < STOPPED_WITHIN_S * SECOND_NS


def test_killed_process_is_named_and_everything_comes_down(domain: int) -> None:
    said: list[Line] = []
    with live_graph(domain, said, composed="true") as runner:
        with Listener(domain, [topics.DECISION]) as listener:
            wait_for("decisions", lambda: len(listener.heard(topics.DECISION)) > 5)
            memory = shared_memory_of(domain)
        os.kill(runner.processes["composed"].pid, signal.SIGKILL)
        outcome = runner.wait(PATIENCE_S)
        assert outcome.failure is not None
        assert outcome.failure.label == "composed"
        assert "SIGKILL" in outcome.failure.detail
        names = ("imu_ingest", "camera_ingest", "fusion", "policy", "opd_bridge", "primitive_executor")
        assert any(is_said(said, "node_lost", f"'{name}'")() for name in names), "the manager names a node"
    assert_nothing_is_left(domain, memory)


def test_second_episode_in_real_time_is_decided_with_its_own_samples_alone(domain: int) -> None:
    heard = [topics.EPISODE_START, topics.EPISODE_END, topics.FUSED_STATE, topics.DECISION, topics.EVENTS]
    said: list[Line] = []
    with Listener(domain, heard) as listener:
        with live_graph(domain, said, episodes="2", composed="true") as runner:
            outcome = runner.wait(PATIENCE_S)
        assert outcome.failure is None, outcome
        assert outcome.reason is EndReason.PROCESS_EXITED
        ends = [h.msg for h in listener.heard(topics.EPISODE_END)]
        assert [int(end.episode) for end in ends] == [0, 1]
        start = next(h.msg for h in listener.heard(topics.EPISODE_START) if h.msg.episode == 1)
        states = [h.msg for h in listener.heard(topics.FUSED_STATE) if h.msg.episode == 1]
        assert states, "the second episode was decided"
        for state in states:
            for ref in state.used:
                assert (ref.stamp.sec, ref.stamp.nanosec) >= (start.stamp.sec, start.stamp.nanosec), ref
        assert not listener.events("malformed_message")
        assert not listener.events("stage_failed")


@contextmanager
def tether_sim(domain: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = ["sim", "--policy", "scripted", "--profile", "ideal", "--episodes", str(EPISODES), "--no-record"]
    code = "import sys; from tether.cli import main; sys.exit(main())"
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words, "--composed", "--no-report"],
            cwd=folder,
            env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def interrupt(process: subprocess.Popen[bytes], folder: Path) -> str:
    process.send_signal(signal.SIGINT)
    status = process.wait(PATIENCE_S)
    output = (folder / "output").read_text(errors="replace")
    assert status == 130, output
    assert "Traceback" not in output, output
    return output


def test_interrupted_in_the_middle_of_a_run_it_leaves_nothing(domain: int, tmp_path: Path) -> None:
    with tether_sim(domain, tmp_path) as process:
        with Listener(domain, [topics.DECISION]) as listener:
            wait_for("decisions", lambda: listener.heard(topics.DECISION))
            memory = shared_memory_of(domain)
        assert "interrupted" in interrupt(process, tmp_path)
    assert_nothing_is_left(domain, memory)


def test_interrupted_while_it_starts_it_leaves_nothing(domain: int, tmp_path: Path) -> None:
    with tether_sim(domain, tmp_path) as process:
        wait_for("the first process", lambda: processes_in(domain) or process.poll() is not None)
        delay_s = random.uniform(0.0, 3.0)
        time.sleep(delay_s)
        memory = shared_memory_of(domain)
        output = interrupt(process, tmp_path)
    assert "interrupted" in output, f"interrupted after {delay_s:.3f} s"
    assert_nothing_is_left(domain, memory)
