"""What is wrong with what a node hears: counted each time, said at most once a second for each reason."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tether.codec import sensors
from tether.contracts import Stream
from tether.topics import Topic

AGAIN_S = 1.0
Say = Callable[[int, str, str, dict[str, Any]], None]
"""Severity, kind, text, data: an event."""


class Complaints:
    """Says faults of streams and topics as events, each with how often it has happened."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._counts: Counter[tuple[str, str]] = Counter()
        self._said_s: dict[tuple[str, str], float] = {}

    def of_stream(self, stream: Stream, reason: str, detail: str) -> None:
        """Something is wrong with a sample."""
        count = self._count(stream.value, reason)
        if count is not None:
            data = {"stream": stream.value, "reason": reason, "count": count}
            self._say(sensors.Severity.WARN, "stream_fault", f"{stream.value}: {reason}: {detail}", data)

    def malformed(self, topic: Topic, error: Exception) -> None:
        """A message cannot be understood."""
        count = self._count(topic.name, "malformed_message")
        if count is not None:
            data = {"topic": topic.name, "count": count}
            self._say(sensors.Severity.ERROR, "malformed_message", f"{topic.name}: {error}", data)

    def _count(self, what: str, reason: str) -> int | None:
        """The count where it is time to say so again, else None."""
        key = (what, reason)
        self._counts[key] += 1
        now_s = time.monotonic()
        if now_s - self._said_s.get(key, -math.inf) < AGAIN_S:
            return None
        self._said_s[key] = now_s
        return self._counts[key]
