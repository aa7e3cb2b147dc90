"""Processes of a launch, found in /proc by the mark they inherit in their environment.

The mark outlives double forks and new sessions, so a helper that a node left behind is found as well.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

MARK = "TETHER_LAUNCH_ID"
STAGE = "TETHER_LAUNCH_STAGE"
_PROC = Path("/proc")


@dataclass(frozen=True)
class MarkedProcess:
    """A living process of a launch.

    `start` is its start time in clock ticks, which tells it from a later process of the same id; `stage` is
    its place in the order of stopping.
    """

    pid: int
    start: int
    stage: int
    name: str

    def is_alive(self) -> bool:
        """Return False once it has ended, reaped or not."""
        return start_time(self.pid) == self.start

    def send(self, signal_number: int) -> bool:
        """Send a signal; return False when the process is no more."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, signal_number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot, None when it is gone or a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name in brackets may hold anything, brackets too
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def marked(mark: str) -> list[MarkedProcess]:
    """Return every living process that carries `mark`, but for the calling one."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            name = (entry / "comm").read_text(errors="replace").strip()
        except OSError:  # gone meanwhile, or another user's
            continue
        start = start_time(int(entry.name))
        if needle not in environ or start is None:
            continue
        stage = next((v for k, _, v in (e.partition(b"=") for e in environ) if k == STAGE.encode()), b"")
        found.append(MarkedProcess(int(entry.name), start, int(stage) if stage.isdigit() else 0, name))
    return found


def kill_marked(mark: str) -> list[MarkedProcess]:
    """Send SIGKILL to every process that carries `mark` until none is left; return those killed."""
    killed: list[MarkedProcess] = []
    for _ in range(100):  # a process that forks all the time is caught by repeating, not for ever
        alive = marked(mark)
        if not alive:
            break
        killed += [process for process in alive if process.send(signal.SIGKILL) and process not in killed]
    return killed
