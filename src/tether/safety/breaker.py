"""Reward circuit breaker: nothing goes on being learned, or rewarded, once rewards cannot be what they claim.

Each reward is held to the subgoal table: its name, its value, that it is paid once, in order, at a believable time, and
that the running return adds up. Each task skill's return is held to the ones before it: |r - μ| > 3 σ trips, with σ no
less than a floor. Single rewards are sparse, so every success would be an outlier among steps; returns are not.

Returns are counted in shares of what the table pays in all, so that limits mean the same for every table: success is 1,
and with the floor of 0.5 no honest mixture of success and failure can trip.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tether.config import bounded
from tether.errors import Fault, InvalidInputError
from tether.safety.moments import MAGNITUDE_MAX, SlidingMoments
from tether.safety.reward_drift import DriftWatch, Notice

_TOLERANCE = 1e-6
"""Relative; rewards are floats that went through sums and messages."""
_SKILLS_MAX = 64
_OPEN_MAX = 16


@dataclass(frozen=True)
class BreakerLimits:
    """When the breaker trips. window: returns of one task skill that count; late_max: from stamp to arrival."""

    window: int = bounded(30, 10_000)
    samples_min: int = bounded(10, 10_000, doc="returns before a return can be an outlier")
    sigmas_max: float = bounded(1, 10, unit="σ")
    sigma_floor: float = bounded(0.05, 5, unit="share of the full return", doc="least σ that is believed")
    future_max_ms: float = bounded(0, 1000, unit="ms")
    late_max_ms: float = bounded(100, 60_000, unit="ms")

    def __post_init__(self) -> None:
        if self.samples_min > self.window:
            fault = Fault("samples_min", f"{self.samples_min}", f"at most window = {self.window}")
            raise InvalidInputError("breaker limits", [fault])


class Cause(str, Enum):
    """Why the breaker tripped."""

    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"
    UNKNOWN_SUBGOAL = "unknown_subgoal"
    WRONG_VALUE = "wrong_value"
    WRONG_RETURN = "wrong_return"
    PAID_TWICE = "paid_twice"
    OUT_OF_ORDER = "out_of_order"
    WRONG_EPISODE = "wrong_episode"
    FROM_THE_FUTURE = "from_the_future"
    TOO_LATE = "too_late"
    OUTLIER = "outlier"
    SENDER = "sender"
    """Rewards come from more than one sender, or from one that is not the reward server."""


@dataclass(frozen=True)
class Reward:
    """One reward as it came.

    stamp_ns: the time it belongs to. task_return: what the episode had paid by then, this one included.
    """

    skill: str
    episode: int
    subgoal: str
    value: float
    stamp_ns: int
    task_return: float


@dataclass(frozen=True)
class Trip:
    """Why and when. now_ns: steady."""

    cause: Cause
    reason: str
    now_ns: int


@dataclass
class _Ledger:
    """What one episode of a task skill was paid."""

    stamps_ns: dict[str, int] = field(default_factory=dict)
    total: float = 0.0
    ended_ns: int | None = None
    success: bool | None = None


class RewardBreaker:
    """Feed it every reward and every end of a task skill; once `trip` is set, nothing counts until `rearm`.

    table: subgoal → what it pays, in the order in which they are reached. Memory is bounded; `observe` never raises.
    """

    def __init__(self, limits: BreakerLimits, table: Mapping[str, float]) -> None:
        faults = [
            Fault(f"reward of {name}", f"{value}", f"a finite number above 0, at most {MAGNITUDE_MAX:g}")
            for name, value in table.items()
            if not 0.0 < value <= MAGNITUDE_MAX
        ]
        if not table:
            faults.append(Fault("subgoal table", "empty", "at least one subgoal"))
        if faults:
            raise InvalidInputError("subgoal table", faults)
        self._limits = limits
        self._table = dict(table)
        self._order = tuple(table)
        self._full = sum(self._table.values())
        self._late_ns = round(limits.late_max_ms * 1e6)
        self._future_ns = round(limits.future_max_ms * 1e6)
        self._windows: dict[str, SlidingMoments] = {}
        self._drifts: dict[str, DriftWatch] = {}
        self._open: OrderedDict[tuple[str, int], _Ledger] = OrderedDict()
        self._excused: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._notices: list[Notice] = []
        self._paying = False
        self.trip: Trip | None = None
        self.ignored = 0

    # What comes in.

    def observe(self, reward: Reward, age_ns: int, now_ns: int, believe_age: bool = True) -> Trip | None:
        """Take a reward. Returns the trip it caused, or None.

        age_ns: from its stamp to its arrival. believe_age: False just after the stamps' clock stepped; an age that
        cannot be then makes the reward not count, but does not trip.
        """
        self._paying = True
        if self.trip is not None:
            self.ignored += 1
            return None
        try:
            found = self._judge(reward, age_ns)
        except Exception as error:  # noqa: BLE001 - whatever came in becomes a trip
            found = Cause.MALFORMED, f"{type(error).__name__}"
        if found is not None:
            if found[0] in (Cause.FROM_THE_FUTURE, Cause.TOO_LATE) and not believe_age:
                self.ignored += 1
                return None
            return self._trip(*found, now_ns)
        ledger = self._open.get((reward.skill, reward.episode))
        if ledger is None:  # what it was paid before the breaker was closed again is not known
            self.ignored += 1
            return None
        ledger.stamps_ns[reward.subgoal] = reward.stamp_ns
        ledger.total += reward.value
        return None

    def distrust(self, reason: str, now_ns: int) -> Trip | None:
        """Whoever hands rewards over is not who should: trips."""
        return self._trip(Cause.SENDER, reason, now_ns) if self.trip is None else None

    def begin(self, skill: str, episode: int, now_ns: int) -> Trip | None:
        """A task skill begins; rewards count only for one that has begun. The one before it has ended by now."""
        if self.trip is not None:
            self._excuse((skill, episode))
            return None
        self._excused.pop((skill, episode), None)
        for (open_skill, _), ledger in self._open.items():
            if open_skill == skill and ledger.ended_ns is None:
                ledger.ended_ns = now_ns
        if len(self._open) >= _OPEN_MAX:
            self._close(next(iter(self._open)), now_ns)
        self._open.setdefault((skill, episode), _Ledger())
        return self.trip

    def finish(self, skill: str, episode: int, now_ns: int, success: bool | None = None) -> None:
        """A task skill ended. Its return counts once rewards under way have had their time: see `advance`.

        success: what another judge (the world) says of it, None where there is none.
        """
        ledger = self._open.get((skill, episode))
        if self.trip is None and ledger is not None and ledger.ended_ns is None:
            ledger.ended_ns, ledger.success = now_ns, success

    def advance(self, now_ns: int) -> Trip | None:
        """Judge the returns of task skills that ended long enough ago. Returns the trip, if one is an outlier."""
        if self.trip is not None:
            return None
        for key, ledger in list(self._open.items()):
            if ledger.ended_ns is not None and now_ns - ledger.ended_ns >= self._late_ns:
                self._close(key, now_ns)
                if self.trip is not None:
                    return self.trip
        return None

    def judge_return(self, skill: str, value: float, now_ns: int) -> Trip | None:
        """Hold one return, in shares of the full one, to those before it; it joins them if it does not trip."""
        if self.trip is not None:
            return None
        if not abs(value) <= MAGNITUDE_MAX:
            return self._trip(Cause.NOT_FINITE, f"{skill}: return {value}", now_ns)
        window = self._windows.get(skill)
        if window is None:
            if len(self._windows) >= _SKILLS_MAX:
                return self._trip(Cause.MALFORMED, f"more than {_SKILLS_MAX} task skills", now_ns)
            window = self._windows[skill] = SlidingMoments(self._limits.window)
            self._drifts[skill] = DriftWatch(skill)
        if len(window) >= self._limits.samples_min:
            mean, sigma = window.mean, max(window.deviation, self._limits.sigma_floor)
            if abs(value - mean) > self._limits.sigmas_max * sigma:
                text = f"{skill}: return {value:.4g}, of {len(window)} before it μ {mean:.4g}, σ {sigma:.4g}"
                return self._trip(Cause.OUTLIER, text, now_ns)
        window.add(value)
        return None

    def rearm(self) -> None:
        """Somebody looked into it: close the breaker.

        Task skills that were open when it tripped, or began while it was, do not count, and cannot be held to an order
        or a return; what each of their rewards is worth still can.
        """
        for key in self._open:
            self._excuse(key)
        self._open.clear()
        self.trip = None

    def notices(self) -> list[Notice]:
        """What was seen since the last call that is worth saying and trips nothing: drift, rewards that stay away."""
        out, self._notices = self._notices, []
        return out

    def state(self) -> dict[str, Any]:
        """Everything, as plain data for a dump."""
        windows = {
            skill: {"returns": w.values(), "mean": _plain(w.mean), "deviation": _plain(w.deviation)}
            for skill, w in self._windows.items()
        }
        opened = [
            {"skill": skill, "episode": episode, "paid": dict(ledger.stamps_ns), "total": _plain(ledger.total)}
            for (skill, episode), ledger in self._open.items()
        ]
        trip = None
        if self.trip is not None:
            trip = {"cause": self.trip.cause.value, "reason": self.trip.reason, "now_ns": self.trip.now_ns}
        return {
            "trip": trip, "table": dict(self._table), "windows": windows, "open": opened, "ignored": self.ignored,
        }  # fmt: skip

    # Inside.

    def _judge(self, reward: Reward, age_ns: int) -> tuple[Cause, str] | None:
        name = f"{reward.skill}, episode {reward.episode}: {reward.subgoal}"[:200]
        counts = (reward.episode, reward.stamp_ns)
        if not (isinstance(reward.skill, str) and isinstance(reward.subgoal, str) and all(map(_is_count, counts))):
            return Cause.MALFORMED, f"{name}: expected texts, a count and a stamp"
        for what, number in (("value", reward.value), ("task_return", reward.task_return)):
            if not math.isfinite(number):
                return Cause.NOT_FINITE, f"{name}: {what} is {number}"
        if reward.subgoal not in self._table:
            return Cause.UNKNOWN_SUBGOAL, f"{name}: expected one of {', '.join(self._order)}"
        if not math.isclose(reward.value, self._table[reward.subgoal], rel_tol=_TOLERANCE):
            return Cause.WRONG_VALUE, f"{name} paid {reward.value:.6g}, expected {self._table[reward.subgoal]:.6g}"
        ledger = self._open.get((reward.skill, reward.episode))
        if ledger is None and (reward.skill, reward.episode) in self._excused:
            return None
        if ledger is None:
            return Cause.WRONG_EPISODE, f"{name}: not under way"
        if reward.subgoal in ledger.stamps_ns:
            return Cause.PAID_TWICE, f"{name} was paid before"
        place = self._order.index(reward.subgoal)
        # Delays differ, so rewards may arrive in another order than they belong to; their stamps may not.
        for other, stamp_ns in ledger.stamps_ns.items():
            if (self._order.index(other) < place) == (stamp_ns > reward.stamp_ns) and stamp_ns != reward.stamp_ns:
                return Cause.OUT_OF_ORDER, f"{name} at {reward.stamp_ns} ns, {other} at {stamp_ns} ns"
        expected = sum(self._table[subgoal] for subgoal in self._order[: place + 1])
        if not math.isclose(reward.task_return, expected, rel_tol=_TOLERANCE):
            return Cause.WRONG_RETURN, f"{name}: task_return {reward.task_return:.6g}, expected {expected:.6g}"
        if age_ns < -self._future_ns:
            return Cause.FROM_THE_FUTURE, f"{name}: stamp {-age_ns * 1e-6:.1f} ms ahead"
        if age_ns > self._late_ns:
            return Cause.TOO_LATE, f"{name}: {age_ns * 1e-6:.1f} ms old, limit {self._limits.late_max_ms:g} ms"
        return None

    def _excuse(self, key: tuple[str, int]) -> None:
        self._excused[key] = None
        while len(self._excused) > _OPEN_MAX:
            self._excused.popitem(last=False)

    def _close(self, key: tuple[str, int], now_ns: int) -> None:
        skill, _ = key
        ledger = self._open.pop(key)
        if not self._paying:
            return  # nobody hands rewards over in this run, so nobody fails to
        share = ledger.total / self._full
        missing = [name for name in self._order[: len(ledger.stamps_ns)] if name not in ledger.stamps_ns]
        if missing:
            self._notices.append(Notice("reward_lost", f"{skill}: {', '.join(missing)} never came, later ones did"))
        if self.judge_return(skill, share, now_ns) is None and skill in self._drifts:
            self._notices += self._drifts[skill].add(share, ledger.success)
            del self._notices[:-_SKILLS_MAX]

    def _trip(self, cause: Cause, reason: str, now_ns: int) -> Trip:
        self.trip = Trip(cause, reason, now_ns)
        return self.trip


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
