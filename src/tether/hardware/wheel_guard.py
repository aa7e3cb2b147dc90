"""Stops the wheels where the driver's process cannot any more: killed, crashed, or stuck. A process of its own.

A velocity servo goes on turning as it was last told: the STS3215 has no register for a lost master (docs/robot.md).
The guard is a second holder of the port that the driver has open, so the adapter still has one owner; it says nothing
on the bus while the driver lives. It imports nothing of Tether, allocates next to nothing, and stands in a session of
its own, so that what ends the driver does not end it.

The driver writes a byte a cycle into a pipe. End of file: the driver has died; the guard stops the wheels and ends.
Silence: the driver is stuck; the guard stops the wheels until it hears of it again. `q`: the driver ends in order.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

BEAT, QUIT = b".", b"q"
_TIMES = 5
_PAUSE_S = 0.02
"""A reply that was under way, or half a packet of the driver's, may spoil the first one."""
_END_S = 2.0


class WheelGuard:
    """The driver's side."""

    def __init__(self, port_fd: int, stop: bytes, silence_s: float) -> None:
        """port_fd: the open port. stop: bytes that stop the wheels. silence_s: a driver silent for longer is stuck."""
        theirs, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__)), *map(str, (port_fd, theirs, silence_s)), stop.hex()],
                pass_fds=(port_fd, theirs),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(self._pipe, False)

    @property
    def alive(self) -> bool:
        """Whether there is somebody to stop the wheels."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the guard."""
        return self._process.pid

    def beat(self) -> None:
        """The driver is alive. A guard that has died, or does not read for long, is no error here."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, BEAT)

    def close(self) -> None:
        """End it: the wheels are the driver's again, or stopped."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, QUIT)
        os.close(self._pipe)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def watch(port: int, pipe: int, silence_s: float, stop: bytes) -> None:
    """The guard's side: see the module. Returns when the driver has died or has ended in order."""
    heard = b""
    while True:
        if not select.select([pipe], [], [], silence_s if heard else None)[0]:
            _say(port, stop)
            continue
        heard = os.read(pipe, 4096)
        if QUIT in heard:
            return
        if not heard:
            for _ in range(_TIMES):
                _say(port, stop)
                time.sleep(_PAUSE_S)
            return


def _say(port: int, stop: bytes) -> None:
    with contextlib.suppress(OSError):  # the adapter has gone, too: nobody can stop them but whoever cuts the power
        os.write(port, stop)


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), bytes.fromhex(sys.argv[4]))
