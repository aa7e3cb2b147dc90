"""Stamp admission: which samples of one stream may be believed about when they were taken.

A sample is judged by its stamp, by the stamps accepted before it and by the `now_ns` handed in; nothing else,
so the same sequence of calls gives the same verdicts on a robot, in lockstep and in replay.

Nothing is held back. A sample that comes out of order but within the reorder window is accepted at once and
marked `reordered`; consumers keep their windows sorted by stamp. Holding samples until their predecessors
came would add the whole window to the latency of every sample, lost ones included.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from tether.config import bounded
from tether.errors import Fault, InvalidInputError
from tether.ingest.rejection import Reason, Rejection

_MS = 1_000_000
_S = 1_000_000_000


@dataclass(frozen=True)
class AdmissionConfig:
    """Bounds on the stamps of one stream. Every bound is finite and positive; none can be switched off."""

    reorder_window_ns: int = bounded(
        1,
        10 * _S,
        unit="ns",
        default=200 * _MS,
        doc="how far behind the newest accepted stamp a sample may come",
    )
    max_future_ns: int = bounded(
        1,
        10 * _S,
        unit="ns",
        default=100 * _MS,
        doc="how far ahead of now a stamp may be: clocks apart, a /clock that lags under load",
    )
    max_age_ns: int = bounded(1, 60 * _S, unit="ns", default=_S, doc="samples older than this are absurdly late")
    clock_jump_ns: int = bounded(
        1, 10 * _S, unit="ns", default=100 * _MS, doc="now going back by more than this is a loop or a reset"
    )
    gap_ns: int = bounded(
        1, 60 * _S, unit="ns", default=100 * _MS, doc="a step between stamps above this is a drop-out"
    )
    source_reset_after: int = bounded(
        2,
        10_000,
        unit="samples",
        default=10,
        doc="rising stamps in a row, all behind the window: the source restarted",
    )
    max_tracked: int = bounded(2, 65_536, unit="stamps", default=1024, doc="stamps remembered to know equal ones")

    def __post_init__(self) -> None:
        faults = []
        if self.max_future_ns > self.reorder_window_ns:
            # Otherwise one stamp a little in the future would turn all honest samples after it into backward
            # ones.
            faults.append(
                Fault(
                    "max_future_ns",
                    str(self.max_future_ns),
                    f"at most reorder_window_ns = {self.reorder_window_ns}",
                )
            )
        if faults:
            raise InvalidInputError("stamp admission", faults, "widen the reorder window or tighten max_future_ns")


class JumpKind(str, Enum):
    """What went back in time."""

    CLOCK = "clock"
    """The clock of the graph: a looped bag, a reset world."""
    SOURCE = "source"
    """The stamps alone: the sensor's driver or its board restarted with an earlier clock."""


@dataclass(frozen=True)
class ClockJump:
    """Time went back; whoever keeps samples of this stream clears them now, once, and logs it."""

    kind: JumpKind
    from_ns: int
    to_ns: int

    def __str__(self) -> str:
        return f"{self.kind.value} went back {_ms(self.from_ns - self.to_ns)}: {self.from_ns} to {self.to_ns} ns"


@dataclass(frozen=True)
class Admission:
    """Verdict on one stamp.

    rejection: None where accepted. jump: set on the first call after time went back. gap_ns: step from the
    newest accepted stamp where it is a drop-out, else None. reordered: accepted, but older than the newest.
    """

    rejection: Rejection | None
    jump: ClockJump | None = None
    gap_ns: int | None = None
    reordered: bool = False

    @property
    def accepted(self) -> bool:
        """True where the sample may be used."""
        return self.rejection is None


class StampAdmission:
    """Judges the stamps of one stream. O(log window) a sample, bounded memory."""

    def __init__(self, config: AdmissionConfig | None = None) -> None:
        self.config = config or AdmissionConfig()
        self.accepted = 0
        self.reordered = 0
        self.gaps = 0
        self.jumps = 0
        self.rejected: Counter[Reason] = Counter()
        self._now_ns: int | None = None
        self._stamps: list[int] = []  # accepted ones within the reorder window, sorted
        # Newest stamp that is tracked no more; below it equal stamps cannot be told.
        self._forgotten_ns: int | None = None
        self._behind: list[int] = []  # rising run of backward stamps

    @property
    def newest_ns(self) -> int | None:
        """Newest accepted stamp, or None before the first and after a jump."""
        return self._stamps[-1] if self._stamps else None

    def reset(self) -> None:
        """Forget the clock and all stamps (start of an episode); counters stay."""
        self._now_ns = None
        self._forget_stamps()

    def admit(self, stamp_ns: int, now_ns: int) -> Admission:
        """Judge the sample stamped `stamp_ns` that came at `now_ns`, both on the clock of the graph."""
        jump = self._watch_clock(now_ns)
        rejection = self._against_now(stamp_ns, now_ns) or self._against_stamps(stamp_ns)
        if rejection is not None and rejection.reason is Reason.BACKWARD_STAMP:
            jump = self._source_restart(stamp_ns) or jump
            if jump is not None and jump.kind is JumpKind.SOURCE:
                rejection = None
        if rejection is not None:
            self.rejected[rejection.reason] += 1
            return Admission(rejection, jump)
        return self._accept(stamp_ns, jump)

    def _accept(self, stamp_ns: int, jump: ClockJump | None) -> Admission:
        newest = self.newest_ns
        self._behind.clear()
        insort(self._stamps, stamp_ns)
        self._trim()
        self.accepted += 1
        if newest is None:
            return Admission(None, jump)
        if stamp_ns < newest:
            self.reordered += 1
            return Admission(None, jump, reordered=True)
        step = stamp_ns - newest
        if step > self.config.gap_ns:
            self.gaps += 1
            return Admission(None, jump, gap_ns=step)
        return Admission(None, jump)

    def _watch_clock(self, now_ns: int) -> ClockJump | None:
        before = self._now_ns
        if before is None or now_ns >= before:
            self._now_ns = now_ns
            return None
        if before - now_ns <= self.config.clock_jump_ns:
            return None  # jitter of a clock topic; the highest reading stays the reference
        self._now_ns = now_ns
        self._forget_stamps()
        self.jumps += 1
        return ClockJump(JumpKind.CLOCK, before, now_ns)

    def _against_now(self, stamp_ns: int, now_ns: int) -> Rejection | None:
        age = now_ns - stamp_ns
        if stamp_ns == 0 and age > self.config.max_age_ns:
            # Zero is how ROS writes "never filled in". It is a time only while the clock itself stands near
            # zero, as at the start of a simulated episode.
            return Rejection(Reason.ZERO_STAMP, f"stamp 0 at now = {now_ns} ns; expected the acquisition time")
        if age < -self.config.max_future_ns:
            limit = _ms(self.config.max_future_ns)
            return Rejection(Reason.FUTURE_STAMP, f"{_ms(-age)} ahead of now, expected at most {limit}{_hint(age)}")
        if age > self.config.max_age_ns:
            limit = _ms(self.config.max_age_ns)
            return Rejection(Reason.LATE_STAMP, f"{_ms(age)} old on arrival, expected at most {limit}{_hint(age)}")
        return None

    def _against_stamps(self, stamp_ns: int) -> Rejection | None:
        newest = self.newest_ns
        if newest is None or stamp_ns > newest:
            return None
        behind = newest - stamp_ns
        if stamp_ns < newest - self.config.reorder_window_ns:
            limit = _ms(self.config.reorder_window_ns)
            return Rejection(Reason.BACKWARD_STAMP, f"{_ms(behind)} behind the newest, expected at most {limit}")
        at = bisect_left(self._stamps, stamp_ns)
        if at < len(self._stamps) and self._stamps[at] == stamp_ns:
            return Rejection(Reason.EQUAL_STAMP, f"stamp {stamp_ns} ns came before, expected one sample a stamp")
        if self._forgotten_ns is not None and stamp_ns <= self._forgotten_ns:
            return Rejection(
                Reason.BACKWARD_STAMP,
                f"{_ms(behind)} and {len(self._stamps)} samples behind the newest, expected at most "
                f"{self.config.max_tracked} samples",
            )
        return None

    def _source_restart(self, stamp_ns: int) -> ClockJump | None:
        """A long rising run of stamps behind the window is a restarted source, not stragglers."""
        if self._behind and stamp_ns <= self._behind[-1]:
            self._behind.clear()
        self._behind.append(stamp_ns)
        newest = self.newest_ns
        if newest is None or len(self._behind) < self.config.source_reset_after:
            return None
        self._forget_stamps()
        self.jumps += 1
        return ClockJump(JumpKind.SOURCE, newest, stamp_ns)

    def _forget_stamps(self) -> None:
        self._stamps.clear()
        self._behind.clear()
        self._forgotten_ns = None

    def _trim(self) -> None:
        floor = self._stamps[-1] - self.config.reorder_window_ns
        surplus = max(bisect_left(self._stamps, floor), len(self._stamps) - self.config.max_tracked)
        if surplus > 0:
            self._forgotten_ns = self._stamps[surplus - 1]
            del self._stamps[:surplus]


def _ms(duration_ns: int) -> str:
    if duration_ns >= 86_400 * _S:
        return f"{duration_ns / (86_400 * _S):.1f} days"
    return f"{duration_ns / _MS:.1f} ms"


def _hint(age_ns: int) -> str:
    """Hours of difference are never delay: the two clocks are different ones."""
    if abs(age_ns) < 3600 * _S:
        return ""
    return "; the header is on another clock than the graph (use_sim_time? clock not set? boot time?)"
