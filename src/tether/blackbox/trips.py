"""What makes the black box write: a latched stop, a breaker, a watchdog, a part of the graph that is lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tether import topics
from tether.codec import convert
from tether.contracts import Mode
from tether.safety.settings import Check

GATE_SILENT_NS = 500_000_000


class TripKind(str, Enum):
    """Kinds of trips."""

    LATCHED_STOP = "latched_stop"
    REWARD_BREAKER = "reward_breaker"
    WATCHDOG = "watchdog"
    """The world or driver stopped by itself, since gated commands had stopped."""
    LOOP_OFFLINE = "loop_offline"
    INTEGRITY = "integrity"
    SIGNATURE = "signature"
    GATE_FAULT = "gate_fault"
    GATE_SILENT = "gate_silent"
    """Verdicts have stopped: the gate is gone, and cannot say so."""
    NODE_LOST = "node_lost"


@dataclass(frozen=True)
class Trip:
    """Something tripped. stamp_ns: the graph's time, steady_ns: steady clock, of the message that said so."""

    kind: TripKind
    reason: str
    stamp_ns: int
    steady_ns: int


_CHECKS = {
    Check.REWARD.value: TripKind.REWARD_BREAKER,
    Check.WATCHDOG.value: TripKind.WATCHDOG,
    Check.HEARTBEAT.value: TripKind.LOOP_OFFLINE,
    Check.STATE_INTEGRITY.value: TripKind.INTEGRITY,
    Check.MODEL_SIGNATURE.value: TripKind.SIGNATURE,
    Check.SKILL_SIGNATURE.value: TripKind.SIGNATURE,
    Check.INTERNAL.value: TripKind.GATE_FAULT,
}
"""Checks of the gate that are trips when they begin to restrict; others only stop for as long as they last. Before the
gate is armed none is: a graph that starts is not yet complete."""
_EVENTS = {
    "node_lost": TripKind.NODE_LOST,
    "node_failed": TripKind.NODE_LOST,
    "stage_failed": TripKind.NODE_LOST,
    "loop_offline": TripKind.LOOP_OFFLINE,
    "reward_breaker": TripKind.REWARD_BREAKER,
    "state_integrity": TripKind.INTEGRITY,
}
"""Kinds of events that are trips."""


class TripWatch:
    """Looks at verdicts, executed commands and events; answers with a trip when one begins, not while it lasts."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A new episode: nothing is on, and no verdict has come yet."""
        self._mode: int | None = None
        self._watchdog = False
        self._on: frozenset[str] = frozenset()
        self._verdict_at_ns: int | None = None

    def look(self, topic: str, msg: Any, steady_ns: int) -> Trip | None:
        """Look at one decoded message that came at `steady_ns`."""
        if topic == topics.VERDICT.name:
            return self._verdict(msg, steady_ns)
        if topic == topics.EXECUTED.name:
            # Before the gate has been armed nobody commands, and standing by itself is what the robot should do.
            began = bool(msg.watchdog_stop) and not self._watchdog and self._mode not in (None, Mode.INIT)
            self._watchdog = bool(msg.watchdog_stop)
            stamp_ns = convert.to_ns(msg.sample.stamp)
            text = f"the robot stopped by itself at tick {int(msg.tick)}: gated commands had stopped"
            return Trip(TripKind.WATCHDOG, text, stamp_ns, steady_ns) if began else None
        if topic == topics.EVENTS.name and msg.kind in _EVENTS:
            text = f"{msg.node}: {msg.text}"
            return Trip(_EVENTS[msg.kind], text, convert.to_ns(msg.stamp), steady_ns)
        return None

    def tick(self, steady_ns: int, stamp_ns: int) -> Trip | None:
        """Call it every so often: silence is noticed by nobody's message."""
        last_ns = self._verdict_at_ns
        if last_ns is None or steady_ns - last_ns < GATE_SILENT_NS:
            return None
        self._verdict_at_ns = None
        text = f"no verdict for {(steady_ns - last_ns) * 1e-6:.0f} ms, expected one every 10 ms"
        return Trip(TripKind.GATE_SILENT, text, stamp_ns, steady_ns)

    def _verdict(self, msg: Any, steady_ns: int) -> Trip | None:
        self._verdict_at_ns = steady_ns
        stamp_ns = convert.to_ns(msg.stamp)
        on = frozenset(check for check, scale in zip(msg.checks, msg.scales, strict=True) if not scale >= 1.0)
        new, self._on = on - self._on, on
        before, self._mode = self._mode, int(msg.mode)
        if self._mode == Mode.STOP and before != Mode.STOP:
            return Trip(TripKind.LATCHED_STOP, _reason(msg, on), stamp_ns, steady_ns)
        for check in msg.checks:
            if check in new and check in _CHECKS and self._mode != Mode.INIT:
                return Trip(_CHECKS[check], _reason(msg, {check}), stamp_ns, steady_ns)
        return None


def _reason(msg: Any, checks: frozenset[str] | set[str]) -> str:
    """Why, from the verdict's own words; what only follows from the mode comes last."""
    said = [f"{check}: {reason}" for check, reason in zip(msg.checks, msg.reasons, strict=True) if check in checks]
    said.sort(key=lambda text: text.startswith(f"{Check.MODE.value}:"))
    return f"tick {int(msg.tick)}: {said[0] if said else 'no reason given'}"
