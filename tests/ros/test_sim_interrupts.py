"""`tether sim` and Ctrl-C: what was measured is written, however often and whenever somebody presses it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from graph_tools import wait_for
from sim_command import Sim

pytestmark = [pytest.mark.ros, pytest.mark.timeout(600)]


@pytest.mark.parametrize("episodes", [1, 400])
def test_what_was_measured_is_written_when_it_is_interrupted_twice(episodes: int, tmp_path: Path) -> None:
    sim, latest = Sim(tmp_path, episodes), tmp_path / "runs" / "latest"
    try:
        sim.until_said(f"1/{episodes} episodes")  # of 1: while the graph comes down
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
        wait_for("the run's log", lambda: sim.log() != "")
        sim.press()
        assert sim.end() == 130
    finally:
        sim.press()
    assert (runs / "latest").readlink() == Path(before.name)
    (made,) = {path.name for path in runs.iterdir()} - {before.name, "latest"}
    expected = f"no episode had ended; in runs/{made} there is no result, only: log"
    assert sim.said().splitlines()[-1] == f"tether: interrupted: {expected}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_was_measured_is_written_when_it_is_told_to_end_or_its_terminal_goes(number: int, tmp_path: Path) -> None:
    sim = Sim(tmp_path, 400)
    try:
        sim.until_said("1/400 episodes")
        sim.press(number)
        assert sim.end() == 128 + number
    finally:
        sim.press()
    result = json.loads((tmp_path / "runs/latest/result.json").read_text())
    assert result["interrupted"] is True
    assert 1 <= result["episodes"] < 400
