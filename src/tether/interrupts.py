"""Ctrl-C, and the other requests to stop, where something must be written or brought down first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_HELD: list[list[int]] = []
"""What has come to each that holds interrupts now, the innermost last."""


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; `kill`, `timeout` and systemd; a terminal that is closed."""


class KeptInterrupt(KeyboardInterrupt):
    """An interrupt whose text says, in one line, what was kept and how to go on. number: the signal's."""

    def __init__(self, text: str, number: int = signal.SIGINT) -> None:
        self.number = int(number)
        super().__init__(text)


def number_of(interrupt: KeyboardInterrupt) -> int:
    """Which signal it was."""
    return interrupt.number if isinstance(interrupt, KeptInterrupt) else int(signal.SIGINT)


@contextmanager
def raising_stops() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeptInterrupt meanwhile, as Ctrl-C raises KeyboardInterrupt: what is open is closed.

    Nothing changes where one is ignored or handled already, and outside the main thread, which no signal reaches.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeptInterrupt("", number)

    mine: list[int] = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in STOPS[1:] if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in mine:
            signal.signal(number, stop)
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def held_interrupts(call: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """A request to stop ends nothing meanwhile: each calls `call` and is noted in the list, by the signal's number.

    Within another one it begins with what has come to that: whoever asked to stop before there was anything to stop.
    Nothing changes for a signal that is ignored, as in a script's background or under nohup, and in threads, which no
    signal reaches.
    """
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in STOPS}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        call()

    try:
        for number in before:
            signal.signal(number, note)
        if _HELD and _HELD[-1]:
            came[:0] = _HELD[-1]
            call()
        _HELD.append(came)
        try:
            yield came
        finally:
            _HELD.pop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
