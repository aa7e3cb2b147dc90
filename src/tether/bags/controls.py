"""Keys of a terminal as a player's controls: space pauses and goes on, s steps, q stops."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType

from tether.bags.player import Ask

KEYS = {b" ": Ask.PAUSE, b"s": Ask.STEP, b"\n": Ask.STEP, b"q": Ask.STOP, b"\x04": Ask.STOP}
HELP = "space: pause, go on   s: one message   q: stop"


class TerminalControls:
    """Reads single keys without echo and without waiting; a context manager that leaves the terminal as it was."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)

    def __enter__(self) -> TerminalControls:
        tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def poll(self) -> Ask | None:
        """The next key's wish; other keys wish nothing."""
        if not select.select([self._file], [], [], 0.0)[0]:
            return None
        return KEYS.get(os.read(self._file, 1))


def has_terminal() -> bool:
    """Whether somebody sits at a terminal that keys can be read from."""
    return sys.stdin is not None and sys.stdin.isatty()
