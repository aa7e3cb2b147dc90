"""Watches over a launch and stops its processes when the launching process dies without doing so.

Run as `python -m tether.launch.guard MARK PARENT_PID SINCE_NS FOLDER`, in a session of its own, its standard input
a pipe that the launching process keeps open. The word `done` on it means that there is nothing left to watch. Its
end without that word, or the end of the parent, means that the parent was killed: the processes that carry
the mark are then stopped in the same order as on Ctrl-C, and their shared memory is removed, and so is FOLDER.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

from tether.launch import procfs, shm
from tether.launch.stopping import Stoppable, StopTimes, by_stage, stop_stage

_PARENT_POLL_S = 0.5


def _watch(parent: int) -> bool:
    """Return True once told `done`, False once the parent is gone."""
    parent_start = procfs.start_time(parent)
    received = b""
    while parent_start is not None:
        readable, _, _ = select.select([0], [], [], _PARENT_POLL_S)
        if readable:
            data = os.read(0, 64)
            received += data
            if b"done" in received:
                return True
            if not data:
                return False
        if procfs.start_time(parent) != parent_start:
            return False
    return False


def _stop(mark: str, times: StopTimes, since_ns: int, folder: str) -> None:
    processes: list[tuple[int, Stoppable]] = [(process.stage, process) for process in procfs.marked(mark)]
    for stage in by_stage(processes):
        stop_stage(stage, lambda _: times, lambda: False)
    procfs.kill_marked(mark)
    shm.remove_left_behind(since_ns)
    shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """Watch, and stop what is left; see the module."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mark, parent, since_ns, folder = arguments[0], int(arguments[1]), int(arguments[2]), arguments[3]
    if not _watch(parent):
        _stop(mark, StopTimes(), since_ns, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
