"""How much the gate looks at: a bound for each topic, so that no flood takes the time that the tick needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tether.contracts import Verdict
from tether.safety import checks
from tether.safety.settings import Check, IntakeLimits

_SAID_NS = 100_000_000
"""How long a flood is held against the topic after the last message that was too many."""


class Intake:
    """A token bucket a topic. `admit` is asked before a message is even decoded."""

    def __init__(self, limits: IntakeLimits) -> None:
        self._burst = float(limits.burst)
        self._per_ns = limits.rate_hz * 1e-9
        self._size_max = round(limits.size_max_kib * 1024)
        self._buckets: dict[str, tuple[float, int]] = {}
        self._flooded_ns: dict[str, int] = {}
        self.dropped: Counter[str] = Counter()
        """Topic → messages that were not looked at."""

    def admit(self, topic: str, size: int, now_ns: int) -> bool:
        """Whether a message of `size` bytes that is here at `now_ns` may be looked at.

        topic: one the gate listens to; their number bounds the memory.
        """
        tokens, then_ns = self._buckets.get(topic, (self._burst, now_ns))
        tokens = min(self._burst, tokens + max(now_ns - then_ns, 0) * self._per_ns)
        if tokens < 1.0 or size > self._size_max:
            self._buckets[topic] = tokens, now_ns
            self._flooded_ns[topic] = now_ns
            self.dropped[topic] += 1
            return False
        self._buckets[topic] = tokens - 1.0, now_ns
        return True

    def judge(self, now_ns: int) -> Sequence[Verdict]:
        """A stop while a topic is flooded: which of its messages are the true ones cannot be told."""
        if not self._flooded_ns:
            return ()
        self._flooded_ns = {t: at for t, at in self._flooded_ns.items() if now_ns - at <= _SAID_NS}
        return [
            checks.refuse(Check.FLOOD, f"{topic}: {self.dropped[topic]} messages more than could be looked at")
            for topic in self._flooded_ns
        ]
