"""Log times in lockstep are the world's: what comes before the world has told its time is held back until it does."""

from __future__ import annotations

import time
from collections.abc import Callable

HELD_MAX = 10_000
"""Messages held back at most. Before the first tick there is little to record; a world that never tells its time must
not fill the memory."""

Write = Callable[[str, bytes, int], object]


class WorldTimes:
    """Gives each message the world's time at its receipt, so that a recording never begins at 0 and then jumps.

    write: takes topic, message and log time in ns. system_ns: the time of receipt where the world never tells its own.
    """

    def __init__(self, write: Write, system_ns: Callable[[], int] = time.time_ns, held_max: int = HELD_MAX) -> None:
        self._write = write
        self._system_ns = system_ns
        self._held_max = held_max
        self._held: list[tuple[str, bytes]] = []
        self._world_ns: int | None = None

    def tell(self, world_ns: int) -> None:
        """/clock says that it is `world_ns`."""
        self._world_ns = world_ns
        self._release(world_ns)

    def tell_first(self, world_ns: int) -> None:
        """A stamp of the world other than /clock, which counts until that has come."""
        if self._world_ns is None:
            self.tell(world_ns)

    def put(self, topic: str, raw: bytes) -> None:
        """Record a message, now or as soon as the world's time is known."""
        if self._world_ns is not None:
            self._write(topic, raw, self._world_ns)
            return
        self._held.append((topic, raw))
        if len(self._held) > self._held_max:
            self.end()

    def end(self) -> None:
        """Record what is still held back, at the system's time: the world has not told its own."""
        self._release(self._system_ns())

    def _release(self, log_time_ns: int) -> None:
        held, self._held = self._held, []
        for topic, raw in held:
            self._write(topic, raw, log_time_ns)
