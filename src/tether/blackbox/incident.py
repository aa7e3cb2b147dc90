"""What happened, read from the messages that were kept: modes, steps, judgements, and the one that went wrong.

Each verdict of the gate is one tick: it names its mode, the decision whose command it judged, and every check that
restricted it. Decisions name the primitive, fused states the task skill and its step. Ticks that agree in mode, step
and primitive are one stretch; stretches and the changes between them are what the picture shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tether import topics
from tether.blackbox.contents import TYPES
from tether.blackbox.ring import Kept
from tether.blackbox.trips import Trip, TripKind
from tether.codec import convert, decode
from tether.contracts import TICK_NS, Mode
from tether.safety.settings import Check

STRETCHES_MAX = 200
EVENTS_MAX = 100
SILENCE = "silence"
"""Name of what went wrong where it was no check of the gate, but that the gate said nothing."""
_BY_SILENCE = frozenset({TripKind.WATCHDOG, TripKind.GATE_SILENT})
_PAUSE_NS, _SILENCE_WITHIN_NS = 5 * TICK_NS, 100 * TICK_NS
_LOOK_BACK = 10
"""Verdicts before a trip among which the judgement that led to it is looked for."""
_FOLLOWS = frozenset({Check.MODE.value, Check.ANCHOR.value, Check.EARLY_TICK.value})
"""Checks that only say what the mode or the tick already was; never what went wrong."""


@dataclass(frozen=True)
class Judgement:
    """One check at one tick. scale: share of the motion that it let pass."""

    check: str
    scale: float
    reason: str
    tick: int
    stamp_ns: int
    decision_id: int


@dataclass
class Stretch:
    """Ticks in a row with the same mode, step and primitive. worst: what restricted it most, None for nothing.

    Verdicts are numbered within the window; ticks and decisions start anew with each episode.
    """

    mode: str
    skill: str
    step_k: int
    step_n: int
    primitive: str
    first_tick: int
    last_tick: int
    first_ns: int
    last_ns: int
    first_decision: int
    last_decision: int
    first_verdict: int
    last_verdict: int
    worst: Judgement | None = None


@dataclass(frozen=True)
class CheckSummary:
    """A check over the whole window."""

    check: str
    ticks: int
    least_scale: float
    first: Judgement
    last: Judgement


@dataclass(frozen=True)
class Incident:
    """What is known about a trip. wrong: the judgement that led to it, as it was when it began; in: the stretch."""

    trip: Trip
    from_ns: int | None
    to_ns: int | None
    stretches: tuple[Stretch, ...]
    left_out: int
    checks: tuple[CheckSummary, ...]
    wrong: Judgement | None
    wrong_in: int | None
    events: tuple[dict[str, Any], ...]
    counts: dict[str, int]
    unreadable: int

    def as_json(self) -> dict[str, Any]:
        """Plain data for the summary."""
        trip = {**asdict(self.trip), "kind": self.trip.kind.value}
        return {
            "trip": trip,
            "window": {"from_ns": self.from_ns, "to_ns": self.to_ns},
            "wrong": None if self.wrong is None else {**asdict(self.wrong), "stretch": self.wrong_in},
            "stretches": [asdict(stretch) for stretch in self.stretches],
            "stretches_left_out": self.left_out,
            "checks": [asdict(check) for check in self.checks],
            "events": list(self.events),
            "messages": self.counts,
            "unreadable": self.unreadable,
        }


@dataclass
class _Steps:
    """(episode, decision) → primitive, and → (skill, k, n)."""

    primitives: dict[tuple[int, int], str]
    skills: dict[tuple[int, int], tuple[str, int, int]]


@dataclass(frozen=True)
class _Tick:
    """A verdict and when it came."""

    msg: Any
    steady_ns: int


def read_incident(trip: Trip, messages: Iterable[Kept]) -> Incident:
    """Make sense of what was kept. Messages that cannot be decoded are counted, and left."""
    steps = _Steps({}, {})
    verdicts: list[_Tick] = []
    events: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    times: list[int] = []
    unreadable = 0
    for item in messages:
        counts[item.topic] += 1
        times.append(item.log_ns)
        try:
            _sort_in(item, steps, verdicts, events)
        except ValueError:
            unreadable += 1
    stretches = _stretches([tick.msg for tick in verdicts], steps)
    wrong, at = _wrong(verdicts, trip)
    left_out = max(0, len(stretches) - STRETCHES_MAX)
    inside = [i for i, s in enumerate(stretches) if s.first_verdict <= at <= s.last_verdict]
    return Incident(
        trip=trip,
        from_ns=min(times, default=None),
        to_ns=max(times, default=None),
        stretches=tuple(stretches[left_out:]),
        left_out=left_out,
        checks=_checks([tick.msg for tick in verdicts]),
        wrong=wrong,
        wrong_in=inside[-1] - left_out if inside and inside[-1] >= left_out else None,
        events=tuple(events[-EVENTS_MAX:]),
        counts=dict(sorted(counts.items())),
        unreadable=unreadable,
    )


def _sort_in(item: Kept, steps: _Steps, verdicts: list[_Tick], events: list[dict[str, Any]]) -> None:
    if item.topic == topics.VERDICT.name:
        verdicts.append(_Tick(decode(item.raw, TYPES[item.topic]), item.steady_ns))
    elif item.topic == topics.DECISION.name:
        action = decode(item.raw, TYPES[item.topic]).action
        steps.primitives[int(action.episode), int(action.decision_id)] = str(action.primitive_name)
    elif item.topic == topics.FUSED_STATE.name:
        state = decode(item.raw, TYPES[item.topic])
        skill = state.skill
        steps.skills[int(state.episode), int(state.decision_id)] = (
            str(skill.name),
            int(skill.step_k),
            int(skill.step_n),
        )
    elif item.topic == topics.EVENTS.name:
        msg = decode(item.raw, TYPES[item.topic])
        stamp_ns = convert.to_ns(msg.stamp)
        said = {"node": msg.node, "severity": int(msg.severity), "kind": msg.kind, "text": msg.text[:500]}
        events.append({"stamp_ns": stamp_ns, **said})


def _stretches(verdicts: Sequence[Any], steps: _Steps) -> list[Stretch]:
    found: list[Stretch] = []
    for i, msg in enumerate(verdicts):
        mode, decision = _mode_name(msg), int(msg.decision_id)
        primitive = steps.primitives.get((int(msg.episode), decision), "")
        skill, step_k, step_n = steps.skills.get((int(msg.episode), decision), ("", 0, 0))
        key = (mode, skill, step_k, step_n, primitive)
        tick, stamp_ns = int(msg.tick), convert.to_ns(msg.stamp)
        last = found[-1] if found else None
        if last is None or key != (last.mode, last.skill, last.step_k, last.step_n, last.primitive):
            last = Stretch(*key, tick, tick, stamp_ns, stamp_ns, decision, decision, i, i)
            found.append(last)
        last.last_tick, last.last_ns, last.last_decision, last.last_verdict = tick, stamp_ns, decision, i
        worst = _most_restrictive(_judgements(msg))
        if worst is not None and (last.worst is None or worst.scale < last.worst.scale):
            last.worst = worst
    return found


def _wrong(verdicts: Sequence[_Tick], trip: Trip) -> tuple[Judgement | None, int]:
    """The judgement that led to the trip, at the tick where it began to restrict without a break; and the number of
    that verdict, -1 where there is none."""
    came = [tick for tick in verdicts if tick.steady_ns <= trip.steady_ns]
    if trip.kind in _BY_SILENCE and (silence := _silence(came, trip)) is not None:
        return silence
    until = [tick.msg for tick in came]
    worst, at = None, len(until)
    while worst is None and at > 0 and len(until) - at < _LOOK_BACK:
        at -= 1
        worst = _most_restrictive(_judgements(until[at]))
    if worst is None:
        return None, -1
    while at > 0:
        same = [j for j in _judgements(until[at - 1]) if j.check == worst.check]
        if not same:
            break
        worst, at = same[0], at - 1
    return worst, at


def _silence(came: Sequence[_Tick], trip: Trip) -> tuple[Judgement, int] | None:
    """The last pause of the gate within a second before the trip, as a judgement; None where it made none."""
    for at in reversed(range(len(came))):
        until_ns = came[at + 1].steady_ns if at + 1 < len(came) else trip.steady_ns
        pause_ns = until_ns - came[at].steady_ns
        if pause_ns >= _PAUSE_NS:
            msg = came[at].msg
            reason = f"no verdict for {pause_ns * 1e-6:.0f} ms after tick {int(msg.tick)}, expected one every 10 ms"
            return Judgement(SILENCE, 0.0, reason, int(msg.tick), convert.to_ns(msg.stamp), int(msg.decision_id)), at
        if trip.steady_ns - came[at].steady_ns > _SILENCE_WITHIN_NS:
            return None
    return None


def _checks(verdicts: Sequence[Any]) -> tuple[CheckSummary, ...]:
    by_check: dict[str, list[Judgement]] = {}
    for msg in verdicts:
        for judgement in _judgements(msg, all_of_them=True):
            by_check.setdefault(judgement.check, []).append(judgement)
    return tuple(
        CheckSummary(check, len(js), min(j.scale for j in js), js[0], js[-1]) for check, js in sorted(by_check.items())
    )


def _judgements(msg: Any, *, all_of_them: bool = False) -> list[Judgement]:
    """Checks that restricted a tick; without those that only follow from others."""
    where = int(msg.tick), convert.to_ns(msg.stamp), int(msg.decision_id)
    return [
        Judgement(str(check), _finite(scale), str(reason), *where)
        for check, scale, reason in zip(msg.checks, msg.scales, msg.reasons, strict=True)
        if not scale >= 1.0 and (all_of_them or check not in _FOLLOWS)
    ]


def _most_restrictive(judgements: Sequence[Judgement]) -> Judgement | None:
    return min(judgements, key=lambda j: j.scale, default=None)


def _finite(scale: float) -> float:
    """A share as JSON can hold it; one that is no number counts as a stop."""
    return float(scale) if scale == scale and abs(scale) < 1e9 else 0.0


def _mode_name(msg: Any) -> str:
    try:
        return Mode(int(msg.mode)).name
    except ValueError:
        return f"mode {int(msg.mode)}"
