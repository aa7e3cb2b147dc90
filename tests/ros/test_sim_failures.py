"""A graph that fails, or meets another one: what was measured is kept, and who is to blame is named."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from graph_tools import processes_in, wait_for
from sim_command import Sim

from tether.bags.writer import BagWriter
from tether.contracts import EpisodeResult
from tether.eval.graph import GraphRunError, require_recorded

pytestmark = [pytest.mark.ros, pytest.mark.timeout(600)]


def test_a_second_graph_in_a_domain_is_refused_by_name_and_the_first_goes_on(domain: int, tmp_path: Path) -> None:
    first = Sim(tmp_path / "first", 400)
    try:
        wait_for("the first graph", lambda: "all nodes are active" in first.log())
        second = Sim(tmp_path / "second", 1)
        assert second.end() == 2
        assert f"another graph of this machine runs in ROS domain {domain}" in second.said()
        before = len(first.said())
        wait_for("another episode of the first", lambda: len(first.said()) > before)
        assert "node_lost" not in first.log()
        first.press()
        assert first.end() == 130
    finally:
        first.kill()


def test_episodes_that_had_ended_before_the_graph_failed_are_written(domain: int, tmp_path: Path) -> None:
    sim = Sim(tmp_path, 400)
    try:
        sim.until_said("1/400 episodes")
        (fusion,) = (pid for pid, node in graph_processes(domain) if node == "fusion")
        os.kill(fusion, signal.SIGKILL)
        assert sim.end() == 2
    finally:
        sim.kill()
    assert "'fusion'" in sim.said() and "of 400 episodes are in runs/" in sim.said()
    result = json.loads((tmp_path / "runs/latest/result.json").read_text())
    assert result["failed"] is True
    assert 1 <= result["episodes"] < 400


def graph_processes(domain: int) -> list[tuple[int, str]]:
    """Process and executable of each node in a domain."""
    pids = [int(entry.split()[0]) for entry in processes_in(domain)]
    lines = [(pid, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")) for pid in pids]
    return [(pid, Path(words[1].decode()).name) for pid, words in lines if b"--ros-args" in words]


def test_a_recording_whose_end_was_never_written_is_a_failure_that_keeps_the_results(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "whole") as writer:
        writer.add_topic("/x", "std_msgs/msg/String")
    results: list[EpisodeResult] = []
    require_recorded(tmp_path / "whole", results)
    (file,) = (tmp_path / "whole").glob("*.mcap")
    file.write_bytes(file.read_bytes()[:41])
    for folder in (tmp_path / "whole", tmp_path / "none"):
        with pytest.raises(GraphRunError, match="their recording is incomplete") as raised:
            require_recorded(folder, results)
        assert raised.value.results == ()
