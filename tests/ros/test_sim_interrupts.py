"""`tether sim` and Ctrl-C: what was measured is written, however often and whenever somebody presses it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from graph_tools import wait_for

pytestmark = [pytest.mark.ros, pytest.mark.timeout(600)]

RUN = "from tether.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
SIM = ["sim", "--policy", "scripted", "--profile", "ideal", "--no-record", "--no-report", "--seed", "5"]


class Sim:
    """The command at a terminal of its own."""

    def __init__(self, folder: Path, episodes: int) -> None:
        self.folder = folder
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", RUN, *SIM, "--episodes", str(episodes)]
        self._process = subprocess.Popen(command, cwd=folder, stderr=theirs, start_new_session=True)
        os.close(theirs)
        os.set_blocking(ours, False)
        self._terminal, self._said = ours, b""

    def said(self) -> str:
        try:
            while data := os.read(self._terminal, 4096):
                self._said += data
        except OSError:
            pass  # nothing more for now, or for good
        return self._said.decode()

    def press(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        return self._process.wait(120.0)


@pytest.mark.parametrize("episodes", [1, 400])
def test_what_was_measured_is_written_when_it_is_interrupted_twice(episodes: int, tmp_path: Path) -> None:
    sim, latest = Sim(tmp_path, episodes), tmp_path / "runs" / "latest"
    try:
        wait_for("an episode", lambda: f"1/{episodes} episodes" in sim.said())  # of 1: while the graph comes down
        assert not latest.exists()
        sim.press()
        time.sleep(0.3)
        sim.press()
        assert sim.end() == 130
    finally:
        sim.press()
    result = json.loads((latest / "result.json").read_text())
    done = result["episodes"]
    assert result["interrupted"] is True
    assert [one["seed"] for one in result["per_episode"]] == list(range(5, 5 + done))
    last = sim.said().splitlines()[-1]
    assert f"tether: interrupted: {done} of {episodes} episodes are in runs/" in last
    if episodes > 1:
        assert 0 < done < episodes
        assert last.endswith(f"; the rest: --seed {5 + done} --episodes {episodes - done}")


def test_a_run_without_a_result_leaves_the_latest_one_where_it_is(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    before = runs / "20260101-000000"
    before.mkdir(parents=True)
    (runs / "latest").symlink_to(before.name)
    sim = Sim(tmp_path, 1)
    try:
        wait_for("the run's folder", lambda: len(list(runs.iterdir())) == 3)
        sim.press()
        assert sim.end() == 130
    finally:
        sim.press()
    assert (runs / "latest").readlink() == Path(before.name)
