"""Evaluation over worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tether.errors import InvalidInputError
from tether.eval.result import Setting
from tether.eval.runner import evaluate


def test_number_of_workers_changes_nothing_but_the_time() -> None:
    setting = Setting("scripted", "pick_moving", "real", False, 3)
    assert evaluate(setting, 3, workers=2) == evaluate(setting, 3, workers=1)


def test_what_the_gates_do_not_watch_is_said_once_however_many_workers_there_are(
    capfd: pytest.CaptureFixture[str],
) -> None:
    evaluate(Setting("scripted", "pick", "ideal", False, 0), 3, workers=3)
    assert capfd.readouterr().err.count("NOT FITTED") == 1


@pytest.mark.parametrize(
    "setting", [Setting("nobody", "pick", "ideal", False, 0), Setting("scripted", "nope", "ideal", False, 0)]
)
def test_wrong_name_is_said_by_the_parent_not_by_each_worker(setting: Setting) -> None:
    with pytest.raises(InvalidInputError, match=r"nobody|nope"):
        evaluate(setting, 4, workers=2)


@pytest.mark.parametrize("kept", [True, False])
def test_interrupted_evaluation_ends_with_its_workers_and_says_what_is_kept(kept: bool, tmp_path: Path) -> None:
    command = "from tether.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    arguments = ["eval", "--policy", "scripted", "--profile", "ideal", "--episodes", "400", "--workers", "2"]
    journal = tmp_path / "out.json.journal"
    if kept:
        arguments += ["--json", str(tmp_path / "out.json")]
    run = subprocess.Popen(
        [sys.executable, "-c", command, *arguments], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert run.stderr is not None
    run.stderr.readline()  # the first worker has made its gate
    deadline = time.monotonic() + 60.0
    while kept and not (journal.exists() and journal.read_text().count("\n") > 1):
        assert time.monotonic() < deadline, "no episode was kept"
        time.sleep(0.1)
    time.sleep(0.0 if kept else 1.0)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    last = said.splitlines()[-1]
    if kept:
        done = journal.read_text().count("\n") - 1
        expected = f"{done} of 400 episodes are kept in {journal}; the same command goes on from there"
    else:
        expected = "nothing is kept; with --json FILE the same command would go on where it stopped"
    assert last == f"tether: interrupted: {expected}"
    assert "Traceback" not in said
    deadline = time.monotonic() + 20.0
    while subprocess.run(["pgrep", "-g", str(run.pid)], capture_output=True).returncode == 0:
        assert time.monotonic() < deadline, "a worker outlived the command"
        time.sleep(0.1)
