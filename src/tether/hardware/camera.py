"""The camera as the robot has it: a thread takes pictures, and restarts a camera that gives none any more."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from tether.clock import Clock
from tether.contracts import U8
from tether.errors import TetherError
from tether.hardware.notices import BackOff, Level, Notices
from tether.hardware.settings import CameraSettings

_KEPT = 2
"""Pictures that wait to be taken: the newest counts, an older one is dropped."""
_READ_S = 0.1
_ARRIVALS = 2048


class CameraError(TetherError):
    """The camera cannot be opened, or went away."""


@dataclass(frozen=True, eq=False)
class Frame:
    """stamp_ns: time.monotonic_ns at which the exposure's middle was. rgb: (height, width, 3) uint8."""

    stamp_ns: int
    rgb: U8


class Source(Protocol):
    """A kind of camera."""

    def open(self) -> None:
        """Start to take pictures; CameraError where that fails."""

    def read(self, deadline_s: float) -> Frame | None:
        """The next picture, None once `deadline_s` (time.monotonic) is over; CameraError where the camera has gone."""

    def close(self) -> None:
        """Stop; may be called at any time, and twice."""


class Camera:
    """Takes pictures from `start` to `close`; `take` gives those that have come."""

    def __init__(self, source: Source, settings: CameraSettings, notices: Notices, clock: Clock) -> None:
        self._source = source
        self._settings = settings
        self._notices = notices
        self._clock = clock
        self._lock = threading.Lock()
        self._frames: list[Frame] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._back_off = BackOff(settings.retry_min_s, settings.retry_max_s)
        self._open = False
        self._new_s = 0.0
        self._said = False
        self._last_ns = 0
        self.arrivals: deque[tuple[int, int]] = deque(maxlen=_ARRIVALS)
        """Stamps of the latest pictures, and when each had been read, on the clock."""
        self.received = 0
        self.restarts = 0
        self.dropped = 0

    @property
    def opened(self) -> bool:
        """Whether the camera was opened and has not failed since."""
        return self._open

    def start(self) -> None:
        """Begin to take pictures."""
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)
        self._thread.start()

    def take(self) -> list[Frame]:
        """Pictures since the last call, oldest first."""
        with self._lock:
            frames, self._frames = self._frames, []
        return frames

    def close(self, deadline_s: float = 3.0) -> None:
        """Stop. A camera that is stuck in its driver keeps its thread, which ends with the process."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(deadline_s)
        else:
            self._source.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self.attend():
                self._ended.wait(_READ_S)
        self._source.close()

    def attend(self) -> bool:
        """Wait a little for a picture; open the camera first where it is not. False where it is not time for that."""
        if not self._open and not self._back_off.due(self._now_s()):
            return False
        try:
            if not self._open:
                self._source.open()
                self._open, self._new_s = True, self._now_s()
            self._read()
        except CameraError as error:
            self._source.close()
            self._open = False
            self.restarts += 1
            self._back_off.failed(self._now_s())
            if not self._said:
                self._notices.add(Level.ERROR, "camera_fault", f"{error}; the camera is restarted")
            self._said = True
        return True

    def _read(self) -> None:
        frame = self._source.read(time.monotonic() + _READ_S)
        if frame is None:
            if self._now_s() - self._new_s > self._settings.stall_ms * 1e-3:
                raise CameraError(f"camera: no picture for {self._settings.stall_ms:g} ms")
            return
        self.received += 1
        if frame.stamp_ns <= self._last_ns:
            return  # a picture given twice is no new one
        self._last_ns, self._new_s = frame.stamp_ns, self._now_s()
        self.arrivals.append((frame.stamp_ns, self._clock.now_ns()))
        self._back_off.reset()
        if self._said:
            self._notices.add(Level.INFO, "camera_back", "the camera gives pictures again")
        self._said = False
        with self._lock:
            self._frames.append(frame)
            self.dropped += len(self._frames) > _KEPT
            del self._frames[:-_KEPT]

    def _now_s(self) -> float:
        return self._clock.now_ns() * 1e-9
