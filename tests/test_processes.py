"""No process outlives the one that started it, whatever ended that one: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tether.processes import spread

PATIENCE_S = 60.0
EVALUATION = ("eval", "--policy", "scripted", "--task", "pick", "--episodes", "2000", "--workers", "2")


def doubled(number: int) -> int:
    return 2 * number


def asleep(number: int) -> int:
    time.sleep(3600.0 if number else 0.0)
    return number


def wait_until(what: str, so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def of_session(session: int) -> set[int]:
    """Processes that live in a session."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(number) == session and state != "Z":
                found.add(int(folder.name))
    return found


@pytest.fixture
def evaluation(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An evaluation of many episodes whose two workers are at work."""
    words = [sys.executable, "-c", "import sys; from tether.cli import main; sys.exit(main(sys.argv[1:]))", *EVALUATION]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [*words, "--json", str(tmp_path / "result.json")], stdout=said, stderr=said, start_new_session=True,
            cwd=tmp_path,
        )  # fmt: skip
        try:
            # the two workers and multiprocessing's own tracker of what they share
            wait_until("the workers", lambda: len(of_session(process.pid)) >= 4 or process.poll() is not None)
            assert process.poll() is None, (tmp_path / "said").read_text()
            yield process
        finally:
            for pid in of_session(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def test_each_item_comes_with_its_result() -> None:
    assert dict(spread(doubled, range(5), 2)) == {number: 2 * number for number in range(5)}


def test_leaving_early_waits_for_no_item_in_hand() -> None:
    done = spread(asleep, range(3), 2)
    began_s = time.monotonic()
    assert next(done) == (0, 0)
    done.close()
    assert time.monotonic() - began_s < PATIENCE_S


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_told_to_end_leaves_no_worker(evaluation: subprocess.Popen[bytes], number: int) -> None:
    evaluation.send_signal(number)
    wait_until("its end", lambda: evaluation.poll() is not None)
    assert evaluation.returncode == 128 + number
    wait_until("its workers' end", lambda: not of_session(evaluation.pid))


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_worker(evaluation: subprocess.Popen[bytes]) -> None:
    evaluation.kill()
    evaluation.wait(PATIENCE_S)
    wait_until("its workers' end", lambda: not of_session(evaluation.pid))
