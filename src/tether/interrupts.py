"""Ctrl-C where something must be written or brought down first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class KeptInterrupt(KeyboardInterrupt):
    """An interrupt whose text says, in one line, what was kept and how to go on."""


@contextmanager
def held_interrupts(call: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Ctrl-C raises nothing meanwhile: each one calls `call` and is noted in the list, by the signal's number.

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
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
