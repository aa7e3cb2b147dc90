"""Evaluation over worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tether.errors import InvalidInputError
from tether.eval.result import Setting
from tether.eval.runner import evaluate


def test_number_of_workers_changes_nothing_but_the_time() -> None:
    setting = Setting("scripted", "pick_moving", "real", False, 3)
    assert evaluate(setting, 3, workers=2) == evaluate(setting, 3, workers=1)


@pytest.mark.parametrize(
    "setting", [Setting("nobody", "pick", "ideal", False, 0), Setting("scripted", "nope", "ideal", False, 0)]
)
def test_wrong_name_is_said_by_the_parent_not_by_each_worker(setting: Setting) -> None:
    with pytest.raises(InvalidInputError, match=r"nobody|nope"):
        evaluate(setting, 4, workers=2)


def test_interrupted_evaluation_ends_with_its_workers() -> None:
    command = "from tether.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    arguments = ["eval", "--policy", "scripted", "--profile", "ideal", "--episodes", "400", "--workers", "2"]
    run = subprocess.Popen(
        [sys.executable, "-c", command, *arguments], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert run.stderr is not None
    run.stderr.readline()  # the first worker has made its gate
    time.sleep(1.0)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "interrupted" in said
    deadline = time.monotonic() + 20.0
    while subprocess.run(["pgrep", "-g", str(run.pid)], capture_output=True).returncode == 0:
        assert time.monotonic() < deadline, "a worker outlived the command"
        time.sleep(0.1)
