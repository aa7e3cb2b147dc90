"""Is a new version of a model worse than the one before it? Windows of prediction errors and of successes tell.

A version that takes over is on probation. Its mean prediction error and its successes are held against those of the
version before, as they stood at the swap. Worse in either, it is to go; as good over full windows, it stays, and what
it did is what the next one is held against. It is watched on for as long as it runs: one that got worse later goes too.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from tether.config import bounded


@dataclass(frozen=True)
class GuardConfig:
    """Windows and what counts as worse."""

    decisions: int = bounded(10, 100_000, default=400, doc="prediction errors that are looked at, the newest")
    least_decisions: int = bounded(5, 100_000, default=100, doc="fewer of them say nothing")
    episodes: int = bounded(2, 10_000, default=30, doc="successes that are looked at, the newest")
    least_episodes: int = bounded(2, 10_000, default=6, doc="fewer of them say nothing")
    error_factor: float = bounded(1.0, 10.0, default=1.3, doc="times the error before that counts as worse")
    error_margin: float = bounded(0.0, 1.0, default=0.02, doc="and by at least so much")
    chance: float = bounded(1e-6, 0.5, default=0.02, doc="of so few successes, were nothing worse")


class Outcome(Enum):
    """What is to become of the version that runs."""

    KEEP = "keep"
    CONFIRM = "confirm"
    """As good over full windows: the probation is over. Said once."""
    ROLL_BACK = "roll back"


@dataclass(frozen=True)
class Judgement:
    """Outcome and why."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Figures:
    """What a version did: mean prediction error (None: too few decisions), successes of so many episodes."""

    error: float | None
    successes: int
    episodes: int


class VersionGuard:
    """Statistics of the running version. Deterministic in the sequence of calls."""

    def __init__(self, config: GuardConfig | None = None) -> None:
        self.config = config or GuardConfig()
        self._errors: deque[float] = deque(maxlen=self.config.decisions)
        self._successes: deque[bool] = deque(maxlen=self.config.episodes)
        self._before: Figures | None = None
        self._confirmed = True
        self._decisions = 0

    @property
    def may_swap(self) -> bool:
        """Whether a newer version may be tried: not while the running one is on probation or has done too little."""
        return self._confirmed and self._decisions >= self.config.least_decisions

    def swapped(self) -> None:
        """Another version runs from now on; what the last one did is what it is held against."""
        figures = self.figures()
        if self._before is not None and figures.error is None:
            figures = Figures(self._before.error, figures.successes, figures.episodes)
        if self._before is not None and figures.episodes < self.config.least_episodes:
            figures = Figures(figures.error, self._before.successes, self._before.episodes)
        self._before = figures
        self._start()
        self._confirmed = False

    def rolled_back(self) -> None:
        """The version before runs again, trusted as it was."""
        self._start()
        self._confirmed = True

    def saw(self, error: float | None) -> None:
        """A decision's prediction error; None and what is not finite say nothing."""
        self._decisions += 1
        if error is not None and math.isfinite(error):
            self._errors.append(error)

    def ended(self, success: bool) -> None:
        """An episode ended."""
        self._successes.append(success)

    def figures(self) -> Figures:
        """What the running version did."""
        enough = len(self._errors) >= self.config.least_decisions
        error = sum(self._errors) / len(self._errors) if enough else None
        return Figures(error, sum(self._successes), len(self._successes))

    def judge(self) -> Judgement:
        """What is to become of the running version."""
        if self._before is None:
            return Judgement(Outcome.KEEP, "there is no version before it")
        worse = self._worse(self._before, self.figures())
        if worse is not None:
            return Judgement(Outcome.ROLL_BACK, worse)
        full = len(self._errors) == self.config.decisions and len(self._successes) >= self.config.least_episodes
        if full and not self._confirmed:
            self._confirmed = True
            now = self.figures()
            text = f"prediction error {_text(now.error)}, before {_text(self._before.error)}"
            return Judgement(Outcome.CONFIRM, f"{text}; {now.successes} of {now.episodes} episodes succeeded")
        return Judgement(Outcome.KEEP, "nothing is worse so far")

    def _worse(self, before: Figures, now: Figures) -> str | None:
        config = self.config
        if before.error is not None and now.error is not None:
            limit = max(config.error_factor * before.error, before.error + config.error_margin)
            if now.error > limit:
                return f"prediction error {now.error:.3f} over {len(self._errors)} decisions, before {before.error:.3f}"
        if before.episodes >= config.least_episodes and now.episodes >= config.least_episodes:
            usual = (before.successes + 1) / (before.episodes + 2)
            chance = at_most(now.successes, now.episodes, usual)
            if chance < config.chance:
                were = f"before {before.successes} of {before.episodes}"
                return f"{now.successes} of {now.episodes} episodes succeeded, {were} (chance {chance:.1e})"
        return None

    def _start(self) -> None:
        self._errors.clear()
        self._successes.clear()
        self._decisions = 0


def at_most(successes: int, n: int, p: float) -> float:
    """Probability of `successes` or fewer of n, each with probability p."""
    return sum(math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(successes + 1))


def _text(error: float | None) -> str:
    return "unknown" if error is None else f"{error:.3f}"
