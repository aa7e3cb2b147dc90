"""Heartbeats: one beat a process, which carries how often each of its loops has turned.

Sender: `Pulse` counts turns and says when a beat is due. A loop that is watched closely beats from within its own turn,
so that a beat is the proof of a turn and nothing waits for a timer; the rest of the process rides along. Nobody else's
beat tells of a turn of such a loop: told later, it would look as if the loop had turned then.

Receiver: `HeartbeatMonitor` keeps when each loop was last seen to have turned. A beat whose counter stands still is no
sign of life. `offline` costs one comparison while all is well, so the gate may ask at every tick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tether.config import bounded
from tether.errors import Fault, InvalidInputError

_STRANGERS_MAX = 64
_COUNT_MAX = 1 << 64


class Consequence(str, Enum):
    """What it means that a loop is offline."""

    NAME = "name"
    """It is said, and nothing else changes."""
    SLOW = "slow"
    DEGRADE = "degrade"
    HOLD = "hold"
    """A controlled stop until the loop turns again."""
    STOP = "stop"
    """A latched stop."""


@dataclass(frozen=True)
class LoopRule:
    """A loop of the graph that the gate listens for. deadline: steady time since it was last seen to turn."""

    offline: Consequence
    deadline_ms: float = bounded(20, 30_000, unit="ms")


@dataclass(frozen=True)
class AgentRule:
    """Agents work in seconds. Looked at every scan; offline after that long without a turn, forgotten after the ttl.

    prefix: names of agents' loops begin with it.
    """

    prefix: str
    offline: Consequence
    scan_s: float = bounded(0.5, 60, unit="s")
    offline_s: float = bounded(1, 300, unit="s")
    ttl_s: float = bounded(2, 3600, unit="s", doc="longer than three times the slowest skill")

    def __post_init__(self) -> None:
        faults = []
        if not self.scan_s <= self.offline_s <= self.ttl_s:
            found = f"scan {self.scan_s:g}, offline {self.offline_s:g}, ttl {self.ttl_s:g}"
            faults.append(Fault("scan_s, offline_s, ttl_s", found, "each at most the next"))
        if not self.prefix:
            faults.append(Fault("prefix", "an empty text", "a text that no other loop's name begins with"))
        if faults:
            raise InvalidInputError("agent heartbeats", faults)


@dataclass(frozen=True)
class HeartbeatRules:
    """Which loops are listened for, in the order in which they feed each other: the first offline one is the cause.

    close_beat: a loop with a deadline shorter than `close_below` beats at its own turns, this far apart at least; a
    process beats every idle_beat in any case.
    """

    loops: dict[str, LoopRule]
    agents: AgentRule
    close_beat_ms: float = bounded(5, 1000, unit="ms")
    close_below_ms: float = bounded(20, 30_000, unit="ms")
    idle_beat_ms: float = bounded(50, 5000, unit="ms")

    def __post_init__(self) -> None:
        faults = []
        for name, rule in self.loops.items():
            close = rule.deadline_ms < self.close_below_ms
            most = self.close_beat_ms if close else self.idle_beat_ms
            if rule.deadline_ms < 2.0 * most:
                found, wanted = f"{rule.deadline_ms:g}", f"at least twice the time between beats, {most:g} ms"
                faults.append(Fault(f"loops: {name}: deadline_ms", found, wanted))
            if name.startswith(self.agents.prefix):
                faults.append(Fault(f"loops: {name}", "an agent's name", f"no {self.agents.prefix!r} in front"))
        if faults:
            raise InvalidInputError("heartbeats", faults)


@dataclass(frozen=True)
class Beat:
    """One beat. loops, counts: names and how often each has turned since the process began."""

    process: str
    pid: int
    loops: tuple[str, ...]
    counts: tuple[int, ...]


class Pulse:
    """Counts the turns of a process's loops, and says when a beat is due. `turn` is a few dictionary look-ups."""

    def __init__(self, rules: HeartbeatRules) -> None:
        self._counts: dict[str, int] = {}
        self._told_ns: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._close_ns = round(rules.close_beat_ms * 1e6)
        self._closely = frozenset(n for n, rule in rules.loops.items() if rule.deadline_ms < rules.close_below_ms)

    def turn(self, loop: str, now_ns: int) -> bool:
        """A loop has turned. True if a beat is due now."""
        count = self._counts[loop] = self._counts.get(loop, 0) + 1
        if loop not in self._closely:
            return False
        told_ns = self._told_ns.get(loop)
        due = told_ns is None or now_ns - told_ns >= self._close_ns
        if due:
            self._told_ns[loop], self._told[loop] = now_ns, count
        return due

    def take(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Names and counts for a beat that is sent now: of closely watched loops, the last turn that had a beat."""
        counts = {**self._counts, **self._told}
        return tuple(counts), tuple(counts.values())


@dataclass(frozen=True)
class Offline:
    """A loop that does not turn. silent_ms: since it was last seen to."""

    loop: str
    process: str
    consequence: Consequence
    silent_ms: float
    beats: bool
    """Whether its process still beats: a frozen loop in a process that lives."""

    def __str__(self) -> str:
        how = f"stands still in {self.process}, which beats" if self.beats else f"is silent, with all of {self.process}"
        return f"{self.loop} {how}: {self.silent_ms:.0f} ms"


class _Seen:
    __slots__ = ("agent", "beat_ns", "consequence", "count", "deadline_ns", "pid", "process", "turned_ns")

    def __init__(self, consequence: Consequence, deadline_ns: int, agent: bool) -> None:
        self.consequence, self.deadline_ns, self.agent = consequence, deadline_ns, agent
        self.process, self.pid, self.count = "", -1, -1
        self.turned_ns = self.beat_ns = 0


class HeartbeatMonitor:
    """Feed it every beat with the steady time of its arrival; `offline` names the loops that do not turn.

    A loop is watched from its first beat on, since before that there is nothing that could be lost. Memory is bounded:
    names that stand in no rule are counted, not kept, and at most 64 agents are.
    """

    def __init__(self, rules: HeartbeatRules) -> None:
        self._rules = rules
        self._seen: dict[str, _Seen] = {}
        self._order = {name: i for i, name in enumerate(rules.loops)}
        self._first_ns: float = math.inf
        self._next_scan_ns: float = math.inf
        self._agents_offline: list[str] = []
        self._forgotten: list[str] = []
        self.strangers = 0
        self.malformed = 0

    def forget(self) -> None:
        """Watch nothing until it beats again: a new episode, or a person who arms the gate anew."""
        self._seen.clear()
        self._agents_offline = []
        self._first_ns = self._next_scan_ns = math.inf

    def hear(self, beat: Beat, now_ns: int) -> None:
        """Take a beat that arrived at `now_ns` of the steady clock. Never raises; what is malformed is counted."""
        if not _well_formed(beat):
            self.malformed += 1
            return
        for loop, count in zip(beat.loops, beat.counts, strict=True):
            seen = self._seen.get(loop) or self._meet(loop, now_ns)
            if seen is None:
                self.strangers += 1
                continue
            seen.beat_ns = now_ns
            # A counter that goes back is a process that was started anew: it has turned.
            if (beat.pid, count) != (seen.pid, seen.count):
                seen.turned_ns, seen.count = now_ns, count
                seen.process, seen.pid = beat.process, beat.pid
                if loop in self._agents_offline:
                    self._agents_offline.remove(loop)
        deadlines = (seen.turned_ns + seen.deadline_ns for seen in self._seen.values() if not seen.agent)
        self._first_ns = min(deadlines, default=math.inf)

    def offline(self, now_ns: int) -> list[Offline]:
        """Loops past their deadline at `now_ns`, the cause first; agents as of the last scan."""
        if now_ns >= self._next_scan_ns:
            self._scan(now_ns)
        if now_ns <= self._first_ns and not self._agents_offline:
            return []
        names = [n for n, s in self._seen.items() if not s.agent and now_ns - s.turned_ns > s.deadline_ns]
        names.sort(key=self._order.__getitem__)
        return [self._describe(name, now_ns) for name in (*names, *self._agents_offline)]

    def forgotten(self) -> list[str]:
        """Agents whose ttl ran out since the last call."""
        out, self._forgotten = self._forgotten, []
        return out

    def _meet(self, loop: str, now_ns: int) -> _Seen | None:
        rule, agents = self._rules.loops.get(loop), self._rules.agents
        if rule is not None:
            seen = _Seen(rule.offline, round(rule.deadline_ms * 1e6), agent=False)
        elif loop.startswith(agents.prefix) and sum(s.agent for s in self._seen.values()) < _STRANGERS_MAX:
            seen = _Seen(agents.offline, round(agents.offline_s * 1e9), agent=True)
            if self._next_scan_ns == math.inf:
                self._next_scan_ns = now_ns + round(agents.scan_s * 1e9)
        else:
            return None
        self._seen[loop] = seen
        return seen

    def _scan(self, now_ns: int) -> None:
        agents = self._rules.agents
        self._next_scan_ns = now_ns + round(agents.scan_s * 1e9)
        late = [n for n, s in self._seen.items() if s.agent and now_ns - s.turned_ns > s.deadline_ns]
        gone = [n for n in late if now_ns - self._seen[n].turned_ns > agents.ttl_s * 1e9]
        for name in gone:
            del self._seen[name]
        self._forgotten += gone
        del self._forgotten[:-_STRANGERS_MAX]
        self._agents_offline = [name for name in late if name not in gone]

    def _describe(self, name: str, now_ns: int) -> Offline:
        seen = self._seen[name]
        beats = now_ns - seen.beat_ns <= max(seen.deadline_ns, 2 * self._rules.idle_beat_ms * 1e6)
        silent_ms = (now_ns - seen.turned_ns) * 1e-6
        return Offline(name, seen.process, seen.consequence, silent_ms, beats and seen.beat_ns > seen.turned_ns)


def worst(offline: Sequence[Offline]) -> Offline | None:
    """The first of those with the gravest consequence."""
    grave = list(Consequence)
    return max(offline, key=lambda each: grave.index(each.consequence), default=None)


def consequences(rules: HeartbeatRules) -> Mapping[str, Consequence]:
    """Loop → what its silence means, for documentation and logs."""
    return {name: rule.offline for name, rule in rules.loops.items()}


def _well_formed(beat: Beat) -> bool:
    if not (isinstance(beat, Beat) and isinstance(beat.loops, tuple) and isinstance(beat.counts, tuple)):
        return False
    if len(beat.loops) != len(beat.counts) or len(beat.loops) > _STRANGERS_MAX:
        return False
    names = all(isinstance(name, str) and len(name) <= 128 for name in (beat.process, *beat.loops))
    numbers = all(type(n) is int and 0 <= n < _COUNT_MAX for n in (beat.pid, *beat.counts))
    return names and numbers
