"""Starts the processes of a launch plan, waits for them, and leaves nothing of them behind.

Every process leads a session of its own, so Ctrl-C at a terminal reaches `tether launch` alone and the order
of stopping is ours (stopping.py). A guard process (guard.py) does the same if this process is killed.
Processes that a node left behind are found by the mark in their environment (procfs.py), shared memory of
killed ones by shm.py.
"""

from __future__ import annotations

import enum
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import TextIOBase
from pathlib import Path
from types import TracebackType

from tether.errors import DeadlineError
from tether.launch import procfs, shm
from tether.launch.model import LaunchPlan, ParameterFile, ProcessPlan
from tether.launch.output import KEPT_LINES, Line, OutputPump, Sink
from tether.launch.ros_log import log_environment
from tether.launch.stopping import Stage, Stoppable, StopTimes, Stubborn, by_stage, stage_of, stop_stage

_POLL_S = 0.02
_LINES_SHOWN = 12
_logger = logging.getLogger(__name__)


class EndReason(enum.Enum):
    """Why a launch ended."""

    ALL_EXITED = "every process has ended"
    PROCESS_FAILED = "a process has failed"
    PROCESS_EXITED = "a process with on_exit=shutdown has ended"
    STOPPED = "it was asked to stop"


@dataclass(frozen=True)
class Failure:
    """The first process that went wrong: its exit status (negative: the signal) and last lines."""

    label: str
    pid: int
    status: int
    detail: str
    last_lines: tuple[str, ...]

    def __str__(self) -> str:
        """Name the process and what happened to it."""
        return f"process '{self.label}' (pid {self.pid}) {self.detail}"


@dataclass(frozen=True)
class Outcome:
    """How a launch ended; `failure` is None when no process failed."""

    reason: EndReason
    first_exited: str | None
    failure: Failure | None

    def why(self) -> str:
        """The process that failed, with its last lines, or the one that ended first."""
        if self.failure is None:
            return f"ended after {self.first_exited or 'an interrupt'}"
        return "\n    ".join([str(self.failure), *self.failure.last_lines[-_LINES_SHOWN:]])


class RunningProcess:
    """A started process."""

    def __init__(self, plan: ProcessPlan, popen: subprocess.Popen[bytes], stage: int) -> None:
        """Wrap a process that `Runner` started."""
        self.plan = plan
        self.stage = stage
        self.tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._popen = popen

    @property
    def name(self) -> str:
        """The plan's label: the node's name, or the executable's."""
        return self.plan.label

    @property
    def pid(self) -> int:
        """Process id, and id of its session and group."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal, None while it runs."""
        return self._popen.poll()

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._popen.poll() is None

    def send(self, signal_number: int) -> bool:
        """Send a signal to the process and those it started in its group."""
        if not self.is_alive():
            return False
        try:
            os.killpg(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


class Runner:
    """A running launch; use as a context manager, or call `start` and `stop`.

    `env` replaces this process's environment as the processes' base; where ROS finds no folder for its own logs by
    it, that is `log_dir` too. `sink` gets each line that is to be shown (from a thread of the runner); without one
    they are logged. `log_dir` receives `launch.log`. `scratch` is the caller's temporary folder for this launch,
    which the guard removes if the caller is killed. `times` are the deadlines of stopping where the launch file
    sets none; `stage` gives each process (package and executable) its place in the order of stopping. With
    `end_on_failure` the first process that fails ends the launch at once; `ros2 launch` would leave it to the
    lifecycle manager to miss the node.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        *,
        env: Mapping[str, str] | None = None,
        log_dir: Path | None = None,
        scratch: Path | None = None,
        sink: Sink | None = None,
        times: StopTimes | None = None,
        stage: Callable[[str, str], int] = stage_of,
        end_on_failure: bool = True,
    ) -> None:
        """Prepare; nothing is started."""
        self._plan = plan
        self._env = dict(os.environ if env is None else env)
        self._log_dir = log_dir
        self._scratch = scratch
        self._sink = sink or _log_line
        self._times = times or StopTimes()
        self._stage = stage
        self._end_on_failure = end_on_failure
        self._mark = uuid.uuid4().hex
        self._processes: list[RunningProcess] = []
        self._exited: list[RunningProcess] = []
        self._failure: Failure | None = None
        self._stop_asked = threading.Event()
        self._hurry = threading.Event()
        self._pump: OutputPump | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._log: TextIOBase | None = None
        self._parameters: Path | None = None
        self._started_ns = 0

    @property
    def processes(self) -> Mapping[str, RunningProcess]:
        """Started processes by label (`label#2` … where a label comes again)."""
        table: dict[str, RunningProcess] = {}
        for process in self._processes:
            key, number = process.name, 1
            while key in table:
                number += 1
                key = f"{process.name}#{number}"
            table[key] = process
        return table

    def __enter__(self) -> Runner:
        """Start everything."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    def start(self) -> None:
        """Start the processes in file order; when one cannot be, those before it are stopped again."""
        if self._pump is not None:
            raise RuntimeError("this Runner was started already; make a new one for each run")
        self._started_ns = time.time_ns() - 100_000_000  # file times come from a clock that ticks in jiffies
        if self._log_dir is not None:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            self._log = (self._log_dir / "launch.log").open("w", encoding="utf-8", buffering=1)
        self._parameters = Path(tempfile.mkdtemp(prefix="tether_launch_", dir=self._scratch))
        self._env |= log_environment(self._env, self._log_dir or self._parameters)
        self._pump = OutputPump(self._sink, self._log)
        self._guard = self._start_guard(self._scratch or self._parameters)
        try:
            for number, plan in enumerate(self._plan.processes):
                self._processes.append(self._start_process(number, plan))
        except BaseException:
            self.stop()
            raise

    def wait(self, timeout_s: float | None = None) -> Outcome:
        """Wait until the launch ends, then stop what is left of it.

        It ends when every process has ended, when one with on_exit="shutdown" has, when one has failed (see
        `end_on_failure`), or after `ask_stop`. Raises DeadlineError at the deadline; everything still runs then.
        What the sink raised is raised here.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._pump is not None and self._pump.error is not None:
                raise self._pump.error
            reason = self._poll()
            if reason is not None:
                first = self._exited[0].name if self._exited else None
                self.stop()
                return Outcome(reason, first, self._failure)
            if deadline is not None and time.monotonic() >= deadline:
                running = [process.name for process in self._processes if process.is_alive()]
                raise DeadlineError("end of these processes", timeout_s or 0.0, running)
            self._stop_asked.wait(_POLL_S)

    def ask_stop(self) -> None:
        """Make `wait` return; asked again while stopping, remaining deadlines shrink to nothing.

        Safe to call from a signal handler or another thread.
        """
        if self._stop_asked.is_set():
            self._hurry.set()
        self._stop_asked.set()

    def stop(self) -> Failure | None:
        """Stop every process in order and remove what they left; return the first failure of the run.

        Calling it again does nothing.
        """
        if self._pump is None or self._parameters is None:
            return self._failure
        self._poll()
        stubborn: list[Stubborn] = []
        pairs: list[tuple[int, Stoppable]] = [(process.stage, process) for process in self._processes]
        for group in by_stage(pairs):
            stubborn += stop_stage(group, self._times_of, self._hurry.is_set)
            self._poll(stopping=True, stubborn={one.name: one.waited_s for one in stubborn})
        for process in procfs.kill_marked(self._mark):
            _logger.warning("process %d (%s), left behind by a node, was killed", process.pid, process.name)
        self._pump.close()
        self._pump = None
        self._release_guard()
        shm.remove_left_behind(self._started_ns)
        shutil.rmtree(self._parameters, ignore_errors=True)
        if self._log is not None:
            self._log.close()
        return self._failure

    def _start_guard(self, folder: Path) -> subprocess.Popen[bytes]:
        arguments = [self._mark, str(os.getpid()), str(self._started_ns), os.path.abspath(folder)]
        command = [sys.executable, "-m", "tether.launch.guard", *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)

    def _release_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            guard.communicate(b"done", timeout=10.0)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            guard.kill()
            guard.wait()

    def _start_process(self, number: int, plan: ProcessPlan) -> RunningProcess:
        assert self._pump is not None and self._parameters is not None
        files = []
        for index, parameter in enumerate(plan.parameters):
            if isinstance(parameter, ParameterFile):
                files.append(parameter.path)
                continue
            path = self._parameters / f"{number:02d}_{plan.label}_{index:02d}.yaml"
            path.write_text(plan.parameter_document(parameter), encoding="utf-8")
            files.append(path)
        stage = int(self._stage(plan.package, plan.executable))
        popen = subprocess.Popen(
            plan.command(files),
            env={**self._env, **plan.env, procfs.MARK: self._mark, procfs.STAGE: str(stage)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        process = RunningProcess(plan, popen, stage)
        for pipe, stream in ((popen.stdout, "stdout"), (popen.stderr, "stderr")):
            assert pipe is not None
            # the pump owns a copy; Popen's own object would close the descriptor under it when collected
            self._pump.add(os.dup(pipe.fileno()), plan.label, stream, plan.output, process.tail)
            pipe.close()
        _logger.info("'%s' started with pid %d", plan.label, popen.pid)
        return process

    def _times_of(self, process: Stoppable) -> StopTimes:
        plan = process.plan if isinstance(process, RunningProcess) else None
        if plan is None:
            return self._times
        interrupt, terminate = plan.stop_timeout_s, plan.kill_timeout_s
        return StopTimes(
            self._times.interrupt_s if interrupt is None else interrupt,
            self._times.terminate_s if terminate is None else terminate,
        )

    def _poll(self, stopping: bool = False, stubborn: Mapping[str, float] | None = None) -> EndReason | None:
        """Take note of processes that have ended; return why the launch has ended, if it has."""
        for process in self._processes:
            status = process.returncode
            if status is None or process in self._exited:
                continue
            self._exited.append(process)
            detail = _failure_detail(status, stopping, (stubborn or {}).get(process.name))
            if detail is None:
                _logger.info("'%s' has ended", process.name)
                continue
            _logger.error("'%s' (pid %d) %s", process.name, process.pid, detail)
            if self._failure is None:
                self._failure = Failure(process.name, process.pid, status, detail, tuple(process.tail))
        if self._failure is not None and self._end_on_failure:
            return EndReason.PROCESS_FAILED
        if any(process.plan.ends_launch for process in self._exited):
            return EndReason.PROCESS_EXITED
        if len(self._exited) == len(self._processes):
            return EndReason.ALL_EXITED
        return EndReason.STOPPED if self._stop_asked.is_set() else None


def _failure_detail(status: int, stopping: bool, killed_after_s: float | None) -> str | None:
    """Return what went wrong, None for an end that is in order."""
    if killed_after_s is not None:
        return f"did not stop within {killed_after_s:.1f} s and was killed"
    if status == 0:
        return None
    number = -status if status < 0 else status - 128  # shells and Python report a signal as 128 + its number
    asked_for = (signal.SIGINT, signal.SIGTERM)
    if stopping and number in asked_for:
        return None
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def _log_line(line: Line) -> None:
    _logger.info("%s", line)


__all__ = [
    "EndReason",
    "Failure",
    "Outcome",
    "Runner",
    "RunningProcess",
    "Stage",
    "StopTimes",
]
