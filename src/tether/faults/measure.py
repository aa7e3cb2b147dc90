"""From a recording to figures: when the first safe set-point came, when the robot stood, when it went on.

Pure. Times are ns of the steady clock, as the probe took the messages: transport to a listener is part of every figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tether import topics
from tether.codec import convert, decode
from tether.contracts import TICK_NS, Mode
from tether.faults.recording import OBSERVER_LATE, Record
from tether.faults.table import End

STANDSTILL_RAD_S, STANDSTILL_M_S = 0.02, 0.01
SETTLED_NS = 100_000_000
"""Standing still is to be below both for that long: a joint that turns round is still for a moment."""
HELD_NS = 200_000_000
"""To be held is to be let do nothing for that long; a busy machine holds the robot for a moment now and then."""
MARGIN_NS = 10_000_000
"""After a stop: what the observer takes then may be the stop itself."""
SILENT_NS = 100_000_000
"""A gate that has sent nothing for that long is silent."""


@dataclass(frozen=True)
class Set:
    """One set of set-points from the gate, as it came at the actuators' input, with the gate's verdict on it."""

    at_ns: int
    stamp_ns: int
    scale: float
    mode: Mode
    episode: int
    tick_ns: int = 0
    """Steady time of the gate's tick that sent it; 0 where the gate did not say."""
    why: str = ""
    """What let nothing pass: the checks of scale 0 and what they said."""
    position: bytes = b""
    """Set-points of the joints, as their bytes."""


@dataclass(frozen=True)
class Applied:
    """What the world applied during a tick."""

    at_ns: int
    by_watchdog: bool
    position: bytes = b""
    """As in `Set`: what the world applied is what the gate sent, bit for bit."""


@dataclass(frozen=True)
class Motion:
    """How fast the robot really was: fastest joint, rad/s (m/s for the gripper's), and the base, m/s and rad/s."""

    at_ns: int
    joints_rad_s: float
    base_m_s: float
    base_rad_s: float

    @property
    def stands(self) -> bool:
        """Whether it is at a standstill."""
        slow = max(self.joints_rad_s, self.base_rad_s) < STANDSTILL_RAD_S
        return slow and self.base_m_s < STANDSTILL_M_S


@dataclass
class Series:
    """What was measured, in order of time. `add` takes records as they come."""

    sets: list[Set] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    motion: list[Motion] = field(default_factory=list)
    episodes: list[tuple[int, int]] = field(default_factory=list)
    """(time, number) of each episode that began."""
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, kind) of each event."""
    blind: list[tuple[int, int]] = field(default_factory=list)
    """(from, to) of each time in which the observer had to wait for the processor."""
    _came: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _judged: dict[int, tuple[float, Mode, int, int, str]] = field(default_factory=dict)

    def add(self, records: Iterable[Record]) -> None:
        """Take records; set-points and the verdict on them find each other by their stamp."""
        for record in records:
            if record.topic is OBSERVER_LATE:
                self.blind.append((record.at_ns - int.from_bytes(record.raw, "little"), record.at_ns))
            if record.topic not in _READ:
                continue
            msg = decode(record.raw, record.topic.type)
            if record.topic is topics.JOINT_COMMAND:
                self._came[convert.to_ns(msg.header.stamp)] = record.at_ns, _bytes_of(msg)
                self._pair(convert.to_ns(msg.header.stamp))
            elif record.topic is topics.VERDICT:
                stamp_ns = convert.to_ns(msg.stamp)
                said = zip(msg.checks, msg.scales, msg.reasons, strict=True)
                why = "; ".join(f"{check}: {reason}" for check, scale, reason in said if not scale > 0.0)
                judged = float(msg.scale), Mode(int(msg.mode)), int(msg.episode), int(msg.steady_ns), why
                self._judged[stamp_ns] = judged
                self._pair(stamp_ns)
            elif record.topic is topics.EXECUTED:
                self.applied.append(Applied(record.at_ns, bool(msg.watchdog_stop), _bytes_of(msg)))
            elif record.topic is topics.MEASURES:
                truth = convert.truth_from(msg)
                vx, vy, wz = truth.base_twist
                fastest = float(np.max(np.abs(truth.joint_velocity), initial=0.0))
                self.motion.append(Motion(record.at_ns, fastest, float(np.hypot(vx, vy)), abs(float(wz))))
            elif record.topic is topics.EVENTS:
                self.events.append((record.at_ns, str(msg.kind)))
            else:
                self.episodes.append((record.at_ns, int(msg.episode)))

    def forget_before(self, at_ns: int) -> None:
        """Drop what is older."""
        for name in ("sets", "applied", "motion"):
            rows = getattr(self, name)
            setattr(self, name, [row for row in rows if row.at_ns >= at_ns])
        self._came = {stamp: came for stamp, came in self._came.items() if came[0] >= at_ns}
        self._judged = {stamp: row for stamp, row in self._judged.items() if stamp in self._came}

    def _pair(self, stamp_ns: int) -> None:
        if stamp_ns in self._came and stamp_ns in self._judged:
            (at_ns, position), judged = self._came.pop(stamp_ns), self._judged.pop(stamp_ns)
            self.sets.append(Set(at_ns, stamp_ns, *judged, position=position))
            if len(self.sets) > 1 and self.sets[-2].at_ns > at_ns:
                self.sets.sort(key=lambda row: row.at_ns)


def _bytes_of(msg: Any) -> bytes:
    """Set-points by the order of the joints' names."""
    values = zip(msg.joint_names if hasattr(msg, "joint_names") else msg.name, msg.position, strict=True)
    return np.array([value for _, value in sorted(values)], np.float64).tobytes()


_READ = (
    topics.JOINT_COMMAND,
    topics.VERDICT,
    topics.EXECUTED,
    topics.MEASURES,
    topics.EPISODE_START,
    topics.EVENTS,
)


@dataclass(frozen=True)
class Stop:
    """How the robot was at the end of the fault and how it came there. ms from the injection; None: did not come.

    still_ms: standstill after the first safe set-point, which is what the same stop takes without a fault before it.
    gate_ms: to the gate's own tick that made it, by the gate's steady clock; the rest of stop_ms is the way to the
    observer. None where the gate made none. gap_ms: longest time between two of the gate's ticks until then. why: what
    the gate said of it.
    """

    end: End
    stop_ms: float | None
    standstill_ms: float | None
    seen: bool
    """Whether anybody saw the robot then: a world that is dead tells nobody how it stands."""
    gate_ms: float | None = None
    gap_ms: float | None = None
    why: str = ""

    @property
    def still_ms(self) -> float | None:
        """From the first safe set-point to standstill."""
        if self.stop_ms is None or self.standstill_ms is None:
            return None
        return max(self.standstill_ms - self.stop_ms, 0.0)


def measure_stop(series: Series, injected_ns: int, until_ns: int) -> Stop:
    """What happened between injection and the end of the fault.

    The first safe set-point is the first one, of gate or watchdog, after the last by which the gate let the robot move.
    It was at the actuators' input no later than it came here, and no later than the world's word that it was applied.
    """
    sets = [row for row in series.sets if injected_ns <= row.at_ns <= until_ns]
    applied = [row for row in series.applied if injected_ns <= row.at_ns <= until_ns]
    moved_ns = max((row.at_ns for row in sets if row.scale > 0.0), default=injected_ns)
    held = [row for row in sets if row.at_ns >= moved_ns and not row.scale > 0.0]
    safe = [row.at_ns for row in held]
    held_at = {row.position for row in held} - {row.position for row in sets if row.scale > 0.0}
    safe += [row.at_ns for row in applied if (row.at_ns >= moved_ns and row.by_watchdog) or row.position in held_at]
    end = _end(sets, applied, moved_ns, until_ns)
    seen = any(until_ns - SILENT_NS <= row.at_ns <= until_ns for row in reversed(series.motion))
    if end in (End.MOVES, End.UNDRIVEN) or not safe:
        return Stop(end, None, None, seen)
    still_ns = _standstill(series.motion, injected_ns, until_ns)
    standstill_ms = None if still_ns is None else _ms(still_ns - injected_ns)
    stop = Stop(end, _ms(min(safe) - injected_ns), standstill_ms, seen)
    return replace(stop, **_of_the_gate(series, held[0], injected_ns)) if held and held[0].tick_ns else stop


def _of_the_gate(series: Series, first: Set, injected_ns: int) -> dict[str, Any]:
    """What the gate's own clock says of its first safe set-point."""
    ticks = [row.tick_ns for row in series.sets if injected_ns - TICK_NS <= row.tick_ns <= first.tick_ns]
    gap_ns = max((new - old for old, new in pairwise(sorted(ticks))), default=0)
    return {"gate_ms": _ms(first.tick_ns - injected_ns), "gap_ms": _ms(gap_ns), "why": first.why}


def _end(sets: Sequence[Set], applied: Sequence[Applied], moved_ns: int, until_ns: int) -> End:
    """Who holds the robot at the end, if anybody does."""
    gate_is_silent = not sets or until_ns - sets[-1].at_ns > SILENT_NS
    # A world that is late applies nothing: what its watchdog applied last still holds, and `Stop.seen` is False.
    if gate_is_silent and applied and applied[-1].by_watchdog:
        return End.WATCHDOG
    if not sets or (gate_is_silent and sets[-1].scale > 0.0):
        return End.UNDRIVEN
    mode = sets[-1].mode
    if sets[-1].scale > 0.0 or (moved_ns > sets[0].at_ns and until_ns - moved_ns < HELD_NS):
        return End.SAFE_MODE if mode is Mode.SAFE else End.MOVES
    return {Mode.STOP: End.LATCHED, Mode.SAFE: End.SAFE_MODE}.get(mode, End.HOLD)


def _standstill(motion: Sequence[Motion], injected_ns: int, until_ns: int) -> int | None:
    """From when on it stood until the end, for SETTLED_NS at least."""
    rows = [row for row in motion if injected_ns <= row.at_ns <= until_ns]
    first = len(rows)
    while first > 0 and rows[first - 1].stands:
        first -= 1
    if first == len(rows) or rows[-1].at_ns - rows[first].at_ns < SETTLED_NS:
        return None
    return rows[first].at_ns


def first_motion(series: Series, after_ns: int) -> int | None:
    """The first set-point after that time which the gate let move the robot."""
    return next((row.at_ns for row in series.sets if row.at_ns >= after_ns and row.scale > 0.0), None)


def was_blind(series: Series, stop: Stop, injected_ns: int, until_ns: int) -> bool:
    """Whether the observer was late where it counts: until the stop, or when it was to see how the fault ended.

    What it took then, it took too late, or had not taken yet: a gate or watchdog that it did not hear looks silent.
    """
    if _late(series, until_ns - SILENT_NS, until_ns):
        return True
    return stop.stop_ms is not None and _late(series, injected_ns, injected_ns + round(stop.stop_ms * 1e6) + MARGIN_NS)


def _late(series: Series, from_ns: int, to_ns: int) -> bool:
    return any(begin_ns <= to_ns and end_ns >= from_ns for begin_ns, end_ns in series.blind)


def episode_began(series: Series, from_ns: int, to_ns: int) -> bool:
    """Whether an episode began in that time: the gate was as new then, and what was measured says nothing."""
    return any(from_ns <= at_ns <= to_ns for at_ns, _ in series.episodes)


def _ms(ns: int) -> float:
    return round(ns * 1e-6, 3)
