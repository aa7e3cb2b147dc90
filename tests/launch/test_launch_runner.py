"""The runner: order of stopping, failures by name, and nothing left behind, whoever dies."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tether.errors import DeadlineError
from tether.launch import EndReason, Runner, Stage, StopTimes, procfs, read, shm
from tether.launch.output import Line

# generous: a loaded machine may be slow, a broken runner never gets there
PATIENCE_S = 60.0

# says "up", then notes its name in $TRACE when it is interrupted
TRACER = """
import os, signal, sys
def note(number, frame):
    with open(os.environ["TRACE"], "a") as file:
        file.write(sys.argv[1] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGINT, note)
print("up")
while True:
    signal.pause()
"""
GRAPH = [
    ("tether_world", "world", Stage.WORLD),
    ("tether_safety", "safety_supervisor", Stage.GATE),
    ("tether_fusion", "fusion", Stage.NODES),
    ("tether_bringup", "lifecycle_manager", Stage.MANAGER),
]


class Screen:
    """A sink that remembers lines."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def __call__(self, line: Line) -> None:
        self.lines.append(line)

    def await_lines(self, text: str, count: int) -> None:
        await_true(lambda: sum(line.text == text for line in self.lines) >= count, f"{count} lines {text!r}")


def await_true(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.02)


def traced_graph(prefix):
    for package, executable, _ in GRAPH:
        prefix.add(package, executable, TRACER)
    return prefix.launch_file(
        "\n".join(f'<node pkg="{p}" exec="{e}" args="{e}" output="screen"/>' for p, e, _ in GRAPH)
    )


def runner_of(prefix, body: str, **options) -> Runner:
    env = prefix.env
    return Runner(read(prefix.launch_file(body), {}, env), env=env, **options)


def test_lines_are_labelled_and_go_where_output_says(prefix, tmp_path: Path):
    prefix.add(
        "pkg",
        "talker",
        "import sys; print('out', flush=True); print('err', file=sys.stderr); print('ö', end='')",
    )
    screen = Screen()
    body = """
    <node pkg="pkg" exec="talker" name="shown" output="screen"/>
    <node pkg="pkg" exec="talker" name="logged" output="log"/>
    <node pkg="pkg" exec="talker" name="both" output="both"/>
    """
    with runner_of(prefix, body, sink=screen, log_dir=tmp_path / "log") as run:
        outcome = run.wait(PATIENCE_S)
    assert outcome.reason is EndReason.ALL_EXITED
    assert outcome.failure is None
    expected = {
        "[shown] out",
        "[shown] err",
        "[shown] ö",
        "[logged] err",
        "[both] out",
        "[both] err",
        "[both] ö",
    }
    assert {str(line) for line in screen.lines} == expected
    logged = {line.split(" ", 1)[1] for line in (tmp_path / "log/launch.log").read_text().splitlines()}
    assert logged == {f"[{label}] {text}" for label in ("logged", "both") for text in ("out", "err", "ö")}


def test_parameters_reach_the_process_and_their_files_go_afterwards(prefix):
    prefix.add("pkg", "show", "import sys; print(sys.argv[-1]); print(open(sys.argv[-1]).read())")
    screen = Screen()
    body = '<node pkg="pkg" exec="show" output="screen"><param name="rate" value="20.0"/></node>'
    with runner_of(prefix, body, sink=screen) as run:
        run.wait(PATIENCE_S)
    assert [line.text for line in screen.lines[1:4]] == ["/**:", "  ros__parameters:", "    rate: 20.0"]
    assert not Path(screen.lines[0].text).parent.exists()


def test_first_failing_process_is_named_with_its_last_lines(prefix):
    prefix.add("pkg", "bad", "print('about to fail'); raise SystemExit(7)")
    prefix.add("pkg", "good")
    body = '<node pkg="pkg" exec="good" name="good"/><node pkg="pkg" exec="bad" name="bad"/>'
    with runner_of(prefix, body) as run:
        failure = run.wait(PATIENCE_S).failure
    assert failure is not None
    assert (failure.label, failure.status) == ("bad", 7)
    assert "process 'bad'" in str(failure)
    assert "ended with exit status 7" in str(failure)
    assert failure.last_lines == ("about to fail",)


@pytest.mark.parametrize("end_on_failure", [True, False])
def test_failure_ends_the_launch_unless_told_to_keep_going(prefix, end_on_failure: bool):
    prefix.add("pkg", "bad", "raise SystemExit(7)")
    prefix.add("pkg", "forever", "import signal; signal.pause()")
    body = '<node pkg="pkg" exec="forever"/><node pkg="pkg" exec="bad" name="bad"/>'
    with runner_of(prefix, body, end_on_failure=end_on_failure) as run:
        await_true(lambda: not run.processes["bad"].is_alive(), "the failure")
        if end_on_failure:
            assert run.wait(PATIENCE_S).reason is EndReason.PROCESS_FAILED
        else:
            with pytest.raises(DeadlineError):
                run.wait(0.3)


def test_what_the_sink_raises_is_raised_by_wait_and_blocks_nobody(prefix):
    def broken(line: Line) -> None:
        raise BrokenPipeError("nobody reads")

    prefix.add("pkg", "chatty", "print('x' * 1_000_000); import signal; signal.pause()")
    with (
        runner_of(prefix, '<node pkg="pkg" exec="chatty" output="screen"/>', sink=broken) as run,
        pytest.raises(BrokenPipeError),
    ):
        run.wait(PATIENCE_S)


def test_process_ended_by_a_signal_is_named_with_it(prefix):
    prefix.add("pkg", "bad", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with runner_of(prefix, '<node pkg="pkg" exec="bad"/>') as run:
        failure = run.wait(PATIENCE_S).failure
    assert failure is not None
    assert failure.detail == "was ended by SIGSEGV"


def test_end_of_a_process_with_on_exit_shutdown_ends_the_launch(prefix):
    # An interpreter that is interrupted while it starts ends with a failure of its own: `brief` waits for `forever`.
    up = str(prefix.root / "up")
    prefix.add("pkg", "forever", f"import signal; open({up!r}, 'w').close(); signal.pause()")
    prefix.add("pkg", "brief", f"import os, time\nwhile not os.path.exists({up!r}): time.sleep(0.01)")
    body = '<node pkg="pkg" exec="forever"/><node pkg="pkg" exec="brief" on_exit="shutdown"/>'
    with runner_of(prefix, body) as run:
        outcome = run.wait(PATIENCE_S)
        assert not any(process.is_alive() for process in run.processes.values())
    assert (outcome.reason, outcome.first_exited) == (EndReason.PROCESS_EXITED, "brief")
    assert outcome.failure is None


def test_wait_names_what_still_runs_at_its_deadline(prefix):
    prefix.add("pkg", "forever", "import signal; signal.pause()")
    body = '<node pkg="pkg" exec="forever" name="late"/>'
    with runner_of(prefix, body) as run, pytest.raises(DeadlineError, match="did not come: late"):
        run.wait(0.1)


def test_manager_stops_first_then_nodes_gate_and_world(prefix, tmp_path: Path):
    env = {**prefix.env, "TRACE": str(tmp_path / "trace")}
    screen = Screen()
    with Runner(read(traced_graph(prefix), {}, env), env=env, sink=screen) as run:
        screen.await_lines("up", len(GRAPH))
        run.ask_stop()
        outcome = run.wait(PATIENCE_S)
    assert (outcome.reason, outcome.failure) == (EndReason.STOPPED, None)
    expected = [executable for _, executable, stage in sorted(GRAPH, key=lambda entry: entry[2])]
    assert (tmp_path / "trace").read_text().split() == expected


def test_process_that_ignores_signals_is_killed_and_named(prefix):
    prefix.add(
        "pkg",
        "deaf",
        """
        import signal
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: print("heard"))
        print("up")
        while True:
            signal.pause()
        """,
    )
    screen = Screen()
    body = '<node pkg="pkg" exec="deaf" output="screen"/>'
    with runner_of(prefix, body, sink=screen, times=StopTimes(0.3, 0.3)) as run:
        screen.await_lines("up", 1)
        failure = run.stop()
    assert failure is not None
    assert "did not stop within" in failure.detail
    assert failure.status == -signal.SIGKILL
    assert sum(line.text == "heard" for line in screen.lines) == 2


def test_second_request_to_stop_does_not_wait(prefix):
    prefix.add(
        "pkg",
        "deaf",
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('up')\nwhile True: signal.pause()",
    )
    screen = Screen()
    body = '<node pkg="pkg" exec="deaf" output="screen"/>'
    with runner_of(prefix, body, sink=screen, times=StopTimes(1000.0, 1000.0)) as run:
        screen.await_lines("up", 1)
        run.ask_stop()
        run.ask_stop()
        run.wait(PATIENCE_S)
        assert not run.processes["deaf"].is_alive()


def test_daemon_that_a_node_left_behind_is_killed(prefix, tmp_path: Path):
    prefix.add(
        "pkg",
        "forker",
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open(sys.argv[1] + ".part", "w").write(str(os.getpid()))
                os.rename(sys.argv[1] + ".part", sys.argv[1])
                time.sleep(3600)
            os._exit(0)
        """,
    )
    pid_file = tmp_path / "daemon.pid"
    with runner_of(prefix, f'<node pkg="pkg" exec="forker" args="{pid_file}"/>') as run:
        await_true(pid_file.exists, "the daemon's pid")
        run.wait(PATIENCE_S)
    assert procfs.start_time(int(pid_file.read_text())) is None


def test_executable_that_vanished_stops_what_was_started(prefix):
    prefix.add("pkg", "forever", "import signal; signal.pause()")
    vanished = prefix.add("pkg", "vanished")
    run = runner_of(prefix, '<node pkg="pkg" exec="forever"/><node pkg="pkg" exec="vanished"/>')
    vanished.unlink()
    with pytest.raises(FileNotFoundError, match="vanished"):
        run.start()
    (process,) = run.processes.values()
    assert not process.is_alive()


@pytest.fixture
def live_launch(prefix, tmp_path: Path):
    """`tether launch` running the traced graph as a process of its own, all four processes up."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**prefix.env, "TRACE": str(tmp_path / "trace"), "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    # set inside, because the venv's start-up hook makes the venv the only prefix
    program = f"""
import os, sys
os.environ["AMENT_PREFIX_PATH"] = {env["AMENT_PREFIX_PATH"]!r}
import argparse
from tether.launch import cli
parser = argparse.ArgumentParser()
cli.add_parser(parser.add_subparsers())
arguments = parser.parse_args(["launch", {str(traced_graph(prefix))!r}])
sys.exit(arguments.run(arguments))
"""
    command = [sys.executable, "-c", program]
    popen = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert popen.stdout is not None
    up, said = 0, ""
    while up < len(GRAPH):
        line = popen.stdout.readline()
        said += line
        assert line, f"tether launch ended before the graph was up: {said}"
        assert "has ended" not in line, line
        up += line.endswith("] up\n")
    environ = Path(f"/proc/{popen.pid}/task/{popen.pid}/children").read_text().split()
    marks = {
        entry
        for child in environ
        for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if entry.startswith(procfs.MARK.encode())
    }
    (mark,) = marks
    guards = [child for child in environ if b"tether.launch.guard" in Path(f"/proc/{child}/cmdline").read_bytes()]
    yield popen, mark.decode().partition("=")[2], int(guards[0]), tmp_path / "trace"
    popen.kill()
    popen.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_tether_launch_stops_all_in_order_and_exits_zero(live_launch, number):
    popen, mark, guard, trace = live_launch
    popen.send_signal(number)
    _, _ = popen.communicate(timeout=PATIENCE_S)
    assert popen.returncode == 0
    assert trace.read_text().split()[0] == "lifecycle_manager"
    assert trace.read_text().split()[-1] == "world"
    assert procfs.marked(mark) == []
    assert procfs.start_time(guard) is None


def test_death_of_tether_launch_stops_all_in_order(live_launch):
    popen, mark, guard, trace = live_launch
    popen.kill()
    await_true(lambda: procfs.marked(mark) == [], "all processes to end")
    await_true(lambda: procfs.start_time(guard) is None, "the guard to end")
    assert trace.read_text().split() == ["lifecycle_manager", "fusion", "safety_supervisor", "world"]
    assert list(trace.parent.glob("temporary/*")) == []  # the parameter files are gone


def test_death_of_a_program_that_runs_a_launch_removes_its_scratch_folder(prefix, tmp_path: Path):
    prefix.add("pkg", "node", "import time\ntime.sleep(60)")
    file = prefix.launch_file('<node pkg="pkg" exec="node"><param name="rate" value="20.0"/></node>')
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = f"""
import os, signal
from pathlib import Path
from tether.launch import Runner, read
file, scratch = Path({str(file)!r}), Path({str(scratch)!r})
with Runner(read(file, {{}}, {prefix.env!r}), scratch=scratch):
    assert len(list(scratch.glob("*/*.yaml"))) == 1
    print("up", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "up\n")
    await_true(lambda: not scratch.exists(), "the scratch folder to go")


def test_crash_of_tether_launch_with_its_process_group_stops_all(live_launch):
    popen, mark, guard, _ = live_launch
    popen.send_signal(signal.SIGSEGV)
    await_true(lambda: procfs.marked(mark) == [], "all processes to end")
    await_true(lambda: procfs.start_time(guard) is None, "the guard to end")


def test_shared_memory_of_ended_processes_is_removed_and_of_living_ones_kept(tmp_path: Path):
    before = time.time_ns() - 1_000_000_000
    dead = {
        "fastrtps_0a1b",
        "fastrtps_0a1b_el",
        "fastdds_port7411",
        "fastdds_port7411_el",
        "sem.fastrtps_port7_mutex",
    }
    kept = {"fastrtps_beef", "fastrtps_beef_el", "sem.fastrtps_beef_mutex", "lttng-ust-wait-6", "fastrtps_zz"}
    for name in dead | kept:
        (tmp_path / name).touch()
    with (tmp_path / "fastrtps_beef_el").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert set(shm.remove_left_behind(before, tmp_path)) == dead
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert shm.remove_left_behind(time.time_ns() + 10**12, tmp_path) == []
    assert os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "log"),
        ({"HOME": ""}, "log"),
        ({"HOME": "/dev/null"}, "log"),
        ({"HOME": "/tmp"}, ""),
        ({"ROS_HOME": "/ros"}, ""),
        ({"ROS_LOG_DIR": "/ros/log"}, "/ros/log"),
    ],
    ids=str,
)
def test_nodes_have_a_folder_for_their_logs_where_there_is_no_home(prefix, tmp_path: Path, given, expected):
    prefix.add("pkg", "node", 'import os\nprint(repr(os.environ.get("ROS_LOG_DIR", "")))')
    file = prefix.launch_file('<node pkg="pkg" exec="node" output="screen"/>')
    env = {name: text for name, text in prefix.env.items() if name not in ("HOME", "ROS_HOME", "ROS_LOG_DIR")} | given
    screen = Screen()
    with Runner(read(file, {}, env), env=env, log_dir=tmp_path / "log", sink=screen) as run:
        run.wait(PATIENCE_S)
    shown = str(tmp_path / "log") if expected == "log" else expected
    assert [line.text for line in screen.lines] == [repr(shown)]
