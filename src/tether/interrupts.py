"""Ctrl-C where something must be written or brought down first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_HELD: list[list[int]] = []
"""What has come to each that holds interrupts now, the innermost last."""


class KeptInterrupt(KeyboardInterrupt):
    """An interrupt whose text says, in one line, what was kept and how to go on."""


@contextmanager
def held_interrupts(call: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Ctrl-C raises nothing meanwhile: each one calls `call` and is noted in the list, by the signal's number.

    Within another one it begins with what has come to that: whoever asked to stop before there was anything to stop.
    Nothing changes where the signal is ignored, as in a script's background, and in threads, which no signal reaches.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield came
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        call()

    signal.signal(signal.SIGINT, note)
    try:
        if _HELD and _HELD[-1]:
            came[:0] = _HELD[-1]
            call()
        _HELD.append(came)
        try:
            yield came
        finally:
            _HELD.pop()
    finally:
        signal.signal(signal.SIGINT, before)
