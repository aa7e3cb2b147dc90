"""Progress of long work on a terminal's last line: done, rate, time left."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO


class Progress:
    """Call `step` after each piece of work. Silent where the stream is no terminal, but for a line every 30 s."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None) -> None:
        self._total = total
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._start_s = time.monotonic()
        self._said_s = self._start_s
        self._done = 0

    def step(self, note: str = "") -> None:
        """One piece is done."""
        self._done += 1
        now_s = time.monotonic()
        rate = self._done / max(now_s - self._start_s, 1e-9)
        left_s = (self._total - self._done) / rate
        text = f"{self._done}/{self._total} {self._what}, {rate:.2f}/s, {left_s:.0f} s left" + (note and f": {note}")
        if self._stream.isatty():
            self._say(f"\r\033[K{text}" + ("\n" if self._done == self._total else ""))
        elif now_s - self._said_s > 30.0 or self._done == self._total:
            self._said_s = now_s
            self._say(text + "\n")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # of a terminal that was closed: the work goes on without a reader
            self._stream.write(text)
            self._stream.flush()
