"""Between the nodes of one process: serialised messages handed over without DDS, after the callback that sent them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable

from tether.topics import Topic


class Hub:
    """Carries the `topics` that only nodes of this process publish; they are not subscribed to from outside.

    Senders publish them all the same, for the recorder and other processes. One thread; first in, first out; nothing is
    lost. A node never runs within the callback of another: whoever runs the nodes calls `deliver` between callbacks.
    """

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self._topics = frozenset(topics)
        self._takers: dict[Topic, list[Callable[[bytes], None]]] = defaultdict(list)
        self._senders: Counter[Topic] = Counter()
        self._waiting: deque[tuple[Topic, bytes]] = deque()

    def carries(self, topic: Topic) -> bool:
        """Whether this topic is handed over here."""
        return topic in self._topics

    def add_sender(self, topic: Topic) -> Callable[[], None]:
        """Somebody here will send it; call what is returned to take that back."""
        self._senders[topic] += 1

        def remove() -> None:
            self._senders[topic] -= 1

        return remove

    def add_taker(self, topic: Topic, take: Callable[[bytes], None]) -> Callable[[], None]:
        """Hand every message sent from now on to `take`; call what is returned to end that."""
        self._takers[topic].append(take)
        return lambda: self._takers[topic].remove(take)

    def senders(self, topic: Topic) -> int:
        """Number of those who send it here."""
        return self._senders[topic]

    def takers(self, topic: Topic) -> int:
        """Number of those who take it here."""
        return len(self._takers[topic])

    def send(self, topic: Topic, raw: bytes) -> None:
        """Keep a message for those who take it here."""
        if topic in self._topics:
            self._waiting.append((topic, raw))

    def deliver(self) -> None:
        """Hand over what waits, and what is sent meanwhile."""
        while self._waiting:
            topic, raw = self._waiting.popleft()
            for take in tuple(self._takers[topic]):
                take(raw)
