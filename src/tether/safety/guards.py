"""Everything around the supervisor that has a say: attestations, heartbeats, the reward breaker, floods, the arbiter.

Each has its own verdict, or is a cause that leads the machine into another mode. Nothing here looks at a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tether.contracts import Mode, Source, Verdict
from tether.safety import checks
from tether.safety.attest import Attestation, attested
from tether.safety.breaker import RewardBreaker, Trip
from tether.safety.causes import Causes, Level
from tether.safety.heartbeat import Beat, Consequence, HeartbeatMonitor, Offline
from tether.safety.intake import Intake
from tether.safety.machine import Event
from tether.safety.settings import Check, SafetySettings

_LEVELS = {
    Consequence.SLOW: Level.SLOW,
    Consequence.DEGRADE: Level.DEGRADED,
    Consequence.STOP: Level.STOP,
}
_NOTICES_MAX = 256
_SAID_NS = 1_000_000_000
"""A loop that goes offline again and again is said once in that time: on a busy machine words cost what it lacks."""
_BREAKER = "reward breaker"

FALLBACKS: Mapping[Source, Level] = {Source.TEACHER: Level.DEGRADED, Source.FALLBACK: Level.SLOW}
"""Where an arbiter decides: whose commands mean what. The teacher on the twin degrades, a slow student slows."""


@dataclass(frozen=True)
class Said:
    """Something for the log and the black box. kind: a stable identifier; bad: whether it is a fault, not its end."""

    kind: str
    text: str
    bad: bool


class Guards:
    """Asked once a tick. table: subgoal → reward, None where nobody hands rewards over; the breaker then is not made.

    sources: what a source of commands means for the mode, nothing where no arbiter chooses among them.
    """

    def __init__(
        self,
        settings: SafetySettings,
        table: Mapping[str, float] | None = None,
        attestations: Sequence[Attestation] = (),
        sources: Mapping[Source, Level] | None = None,
    ) -> None:
        self.intake = Intake(settings.intake)
        self.monitor = HeartbeatMonitor(settings.heartbeats)
        self.breaker = None if table is None else RewardBreaker(settings.breaker, table)
        self.causes = Causes()
        self._attestations = tuple(attestations)
        self._sources = dict(sources or {})
        self._safe_share = settings.modes.safe.speed_share
        self._silent_since_ns: dict[str, float] = {}
        self._last_said_ns: dict[str, int] = {}
        self._spoken_of: set[str] = set()
        self._said: list[Said] = []
        self._dropped = 0

    def restart(self) -> None:
        """A new episode: what beats is met anew. A tripped breaker stays tripped."""
        self.monitor.forget()
        self.causes.forget()
        self._silent_since_ns.clear()
        self._spoken_of.clear()

    def acknowledge(self) -> None:
        """Somebody armed the gate with a reason: a tripped breaker closes."""
        if self.breaker is not None:
            self.breaker.rearm()
        self.causes.clear(_BREAKER)

    def hear(self, beat: Beat, now_ns: int) -> None:
        """A heartbeat came."""
        self.monitor.hear(beat, now_ns)

    def follow(self, source: Source) -> None:
        """A command of `source` came: where an arbiter decides, it says who is in charge."""
        if not self._sources:
            return
        level = self._sources.get(source, Level.NONE)
        self.causes.report("arbiter", level, f"{source.value} is in charge")

    def judge(self, now_ns: int, mode: Mode) -> tuple[list[Verdict], tuple[Event, str] | None]:
        """Verdicts below 1, and what the causes ask of the machine."""
        verdicts = [*attested(self._attestations), *self.intake.judge(now_ns)]
        verdicts += self._judge_beats(now_ns)
        if self.breaker is not None:
            self.breaker.advance(now_ns)
            trip = self.breaker.trip
            if trip is not None:
                reason = _reason(trip)
                self.causes.report(_BREAKER, Level.SAFE, reason)
                verdicts.append(Verdict(Check.REWARD.value, self._safe_share, reason))
            for notice in self.breaker.notices():
                self._say(notice.kind, notice.reason, bad=True)
        return verdicts, self.causes.event(mode)

    def said(self) -> list[Said]:
        """What is worth saying since the last call."""
        dropped = sum(self.intake.dropped.values())
        if dropped != self._dropped:
            self._dropped = dropped
            counts = ", ".join(f"{topic} {count}" for topic, count in self.intake.dropped.most_common(4))
            self._say("flood", f"messages not looked at: {counts}", bad=True)
        out, self._said = self._said, []
        return out

    def _judge_beats(self, now_ns: int) -> list[Verdict]:
        offline = self.monitor.offline(now_ns)
        if not offline and not self._silent_since_ns:
            return []
        verdicts = []
        levels: dict[Level, Offline] = {}
        for each in offline:
            if each.loop not in self._silent_since_ns:
                self._silent_since_ns[each.loop] = now_ns - each.silent_ms * 1e6
                if now_ns - self._last_said_ns.get(each.loop, -_SAID_NS) >= _SAID_NS:
                    self._last_said_ns[each.loop] = now_ns
                    self._spoken_of.add(each.loop)
                    self._say("loop_offline", f"{each}; {each.consequence.value}", bad=True)
            if each.consequence is Consequence.HOLD:
                verdicts.append(checks.refuse(Check.HEARTBEAT, str(each)))
            elif each.consequence in _LEVELS:
                levels.setdefault(_LEVELS[each.consequence], each)
        self._set_cause(levels)
        for loop in set(self._silent_since_ns) - {each.loop for each in offline}:
            silent_s = (now_ns - self._silent_since_ns.pop(loop)) * 1e-9
            if loop in self._spoken_of:
                self._spoken_of.remove(loop)
                text = f"{loop} turns again, or is no longer missed, after {silent_s:.2f} s"
                self._say("loop_online", text, bad=False)
        return verdicts

    def _set_cause(self, levels: Mapping[Level, Offline]) -> None:
        if levels:
            level = max(levels)
            self.causes.report("heartbeat", level, str(levels[level]))
        else:
            self.causes.clear("heartbeat")

    def _say(self, kind: str, text: str, *, bad: bool) -> None:
        self._said.append(Said(kind, text, bad))
        del self._said[:-_NOTICES_MAX]


def _reason(trip: Trip) -> str:
    return f"{trip.cause.value}: {trip.reason}"
