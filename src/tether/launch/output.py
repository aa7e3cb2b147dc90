"""Lines that started processes write: parted, labelled, handed on, and the last ones kept for messages."""

from __future__ import annotations

import codecs
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import TextIOBase

from tether.launch.model import Output

KEPT_LINES = 40
_MAX_LINE = 64 * 1024  # a process that never ends its line cannot fill the memory


@dataclass(frozen=True)
class Line:
    """One line of a process; `stream` is "stdout" or "stderr", `text` has no line end."""

    label: str
    stream: str
    text: str

    def __str__(self) -> str:
        """Return the line as it is shown."""
        return f"[{self.label}] {self.text}"


Sink = Callable[[Line], None]


class _Pipe:
    def __init__(self, label: str, stream: str, output: Output, tail: deque[str]) -> None:
        self.label, self.stream, self.output, self.tail = label, stream, output, tail
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines completed by `data`; empty data is the end and completes the last one."""
        text = self._rest + self._decoder.decode(data, final=not data)
        *complete, self._rest = text.split("\n")
        if (not data and self._rest) or len(self._rest) > _MAX_LINE:
            complete.append(self._rest)
            self._rest = ""
        return [Line(self.label, self.stream, line.rstrip("\r")) for line in complete]


class OutputPump:
    """Reads the pipes of all processes in one thread.

    `sink` gets what is to be shown, `log` what is to be kept, each after the process's `output` setting. A sink
    that raises is called no more, and `error` says what it raised; the pipes are read on, for a process whose
    pipe is full stands still.
    """

    def __init__(self, sink: Sink, log: TextIOBase | None) -> None:
        """Start reading; add pipes with `add`."""
        self._sink: Sink | None = sink
        self.error: Exception | None = None
        self._log = log
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="launch-output", daemon=True)
        self._thread.start()

    def add(self, descriptor: int, label: str, stream: str, output: Output, tail: deque[str]) -> None:
        """Read `descriptor` (owned from now on) until its end."""
        os.set_blocking(descriptor, False)
        with self._lock:
            self._selector.register(descriptor, selectors.EVENT_READ, _Pipe(label, stream, output, tail))
        os.write(self._wake_write, b".")

    def close(self, timeout_s: float = 2.0) -> None:
        """Read what is still in the pipes and end; a pipe someone holds open is dropped after `timeout_s`."""
        self._closing = True
        os.write(self._wake_write, b".")
        self._thread.join(timeout_s)
        with self._lock:
            for key in list(self._selector.get_map().values()):
                self._selector.unregister(key.fd)
                os.close(key.fd)
            self._selector.close()
        os.close(self._wake_write)

    def _run(self) -> None:
        deadline: float | None = None
        while True:
            try:
                ready = self._selector.select(timeout=0.1)
            except (OSError, ValueError, RuntimeError):  # closed under us after the deadline of close()
                return
            for key, _ in ready:
                if key.data is None:
                    os.read(self._wake_read, 4096)
                else:
                    self._read(key.fd, key.data)
            if self._closing:
                deadline = deadline or time.monotonic() + 1.5
                with self._lock:
                    open_pipes = len(self._selector.get_map() or {}) - 1
                if open_pipes <= 0 or time.monotonic() > deadline:
                    return

    def _show(self, line: Line) -> None:
        if self._sink is None:
            return
        try:
            self._sink(line)
        except Exception as error:  # noqa: BLE001 - the runner raises it where it can be caught
            self.error, self._sink = error, None

    def _read(self, descriptor: int, pipe: _Pipe) -> None:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for line in pipe.feed(data):
            pipe.tail.append(line.text)
            if self._log is not None and pipe.output.in_log:
                self._log.write(f"{time.time():.6f} {line}\n")
            if pipe.output.on_screen(pipe.stream):
                self._show(line)
        if not data:
            with self._lock:
                self._selector.unregister(descriptor)
            os.close(descriptor)
