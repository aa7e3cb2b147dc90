"""Stamps, lock and command running of set-up survive interrupts and tell what failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from setup_steps.core import Context, SetupError, digest, digest_files, setup_lock, write_atomic


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(tmp_path, tmp_path / ".venv")


def test_step_counts_as_done_only_for_the_key_it_was_done_for(ctx: Context) -> None:
    assert not ctx.stamped("wheels", "a")
    ctx.stamp("wheels")
    assert ctx.stamped("wheels", "a")
    assert not ctx.stamped("wheels", "b")


def test_unstamped_step_is_done_again(ctx: Context) -> None:
    ctx.stamped("wheels", "a")
    ctx.stamp("wheels")
    ctx.unstamp("wheels")
    assert not ctx.stamped("wheels", "a")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"other": 1}'])
def test_torn_stamp_means_not_done(ctx: Context, text: str) -> None:
    write_atomic(ctx.state / "wheels.json", text)
    assert not ctx.stamped("wheels", "a")


def test_digest_keeps_apart_what_concatenation_would_join() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_renamed_file_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "A.msg").write_text("int32 x")
    before = digest_files(tmp_path, tmp_path.iterdir())
    (tmp_path / "A.msg").rename(tmp_path / "B.msg")
    assert digest_files(tmp_path, tmp_path.iterdir()) != before


def test_atomic_write_keeps_the_mode_and_leaves_no_part_file(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_text("old")
    path.chmod(0o755)
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]


def test_failed_command_shows_status_and_end_of_its_output(ctx: Context) -> None:
    with pytest.raises(SetupError, match=r"(?s)step 'demo' failed with exit status 3.*the reason"):
        ctx.run("demo", [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"])


def test_two_commands_run_at_the_same_time_and_both_are_waited_for(ctx: Context) -> None:
    meet = "until [ -e {} ]; do sleep 0.05; done"  # each ends only once the other has begun
    with ctx.alongside("long", ["sh", "-c", f"touch long; {meet.format('short')}; sleep 0.3; touch done"]):
        ctx.run("short", ["sh", "-c", f"touch short; {meet.format('long')}"])
    assert (ctx.root / "done").exists()


def test_failure_beside_a_step_that_went_well_is_shown(ctx: Context) -> None:
    done = []
    with (
        pytest.raises(SetupError, match=r"(?s)step 'demo' failed with exit status 3.*the reason"),
        ctx.alongside("demo", ["sh", "-c", "echo the reason; exit 3"]),
    ):
        done.append("the step beside it")
    assert done


@pytest.mark.parametrize("end", [KeyboardInterrupt, SetupError])
def test_what_ends_the_step_beside_it_ends_the_command_too(ctx: Context, end: type[BaseException]) -> None:
    with pytest.raises(end), ctx.alongside("long", ["sh", "-c", "echo $$ > pid; exec sleep 60"]):
        note = ctx.root / "pid"
        deadline = time.monotonic() + 20
        while not (note.exists() and note.read_text().strip()):
            assert time.monotonic() < deadline, "the command did not start"
            time.sleep(0.05)
        raise end("on purpose")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_what_a_command_has_started_ends_with_it(ctx: Context) -> None:
    with pytest.raises(KeyboardInterrupt), ctx.alongside("long", ["sh", "-c", "sleep 60 & echo $! > pid; wait"]):
        note = ctx.root / "pid"
        deadline = time.monotonic() + 20
        while not (note.exists() and note.read_text().strip()):
            assert time.monotonic() < deadline, "the command did not start"
            time.sleep(0.05)
        raise KeyboardInterrupt
    stat = Path(f"/proc/{int(note.read_text())}/stat")
    deadline = time.monotonic() + 20
    while stat.exists() and ") Z " not in stat.read_text():
        assert time.monotonic() < deadline, "what it had started goes on"
        time.sleep(0.05)


def test_second_set_up_waits_and_then_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        setup_lock(path),
        pytest.raises(SetupError, match=f"process {os.getpid()} has held"),
        setup_lock(path, timeout_s=0.3),
    ):
        pytest.fail("two set-ups held the lock at once")


def test_lock_of_a_killed_set_up_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold = (
        "import sys, time\n"
        "from setup_steps.core import setup_lock\n"
        "with setup_lock(sys.argv[1]):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = start_holder(hold, path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with setup_lock(path, timeout_s=5):
        assert path.read_text().strip() == str(os.getpid())


def test_lock_stays_held_while_an_orphaned_command_still_writes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold = (
        "import sys; from pathlib import Path; from setup_steps.core import Context, setup_lock\n"
        "root = Path(sys.argv[1]).parent\n"
        "with setup_lock(Path(sys.argv[1])) as fd:\n"
        "    print('held', flush=True)\n"
        "    ctx = Context(root, root / 'venv', lock_fd=fd)\n"
        "    ctx.run('orphan', ['sh', '-c', 'echo $$ > orphan; exec sleep 60'])\n"
    )
    child = start_holder(hold, path)
    note = tmp_path / "orphan"
    deadline = time.monotonic() + 20
    while not (note.exists() and note.read_text().strip()):
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    try:
        with pytest.raises(SetupError, match="has held"), setup_lock(path, timeout_s=0.3):
            pytest.fail("a set-up started beside an orphan of the last one")
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)
    with setup_lock(path, timeout_s=5):
        pass


def start_holder(code: str, path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock and has said so."""
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    env = {**os.environ, "PYTHONPATH": str(scripts)}
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=env)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "held"
    return child
