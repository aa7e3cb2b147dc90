"""Runs a program so that SIGUSR1 makes it raise, in the middle of whatever it is doing.

`python -m tether.faults.raiser PROGRAM ARGUMENTS...`: the program itself is unchanged and knows nothing of it.
"""

from __future__ import annotations

import runpy
import signal
import sys
from types import FrameType


class InjectedError(Exception):
    """The exception that the campaign puts into a process; nothing in the graph knows how to handle it."""


def _raise(number: int, frame: FrameType | None) -> None:
    raise InjectedError("put in by the fault campaign")


def main() -> None:
    """Install the handler and become the program."""
    signal.signal(signal.SIGUSR1, _raise)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
