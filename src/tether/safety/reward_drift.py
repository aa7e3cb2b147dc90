"""Rewards that change slowly, or stay away: said, but no reason to trip."""

from __future__ import annotations

from dataclasses import dataclass

_REFERENCE = 50
"""Returns that say what is normal."""
_SLACK = 0.1
"""Change of the mean return that is no drift, in shares of the full return."""
_LIMIT = 6.0
"""Sum of excesses over the slack from which it is one. Where every tenth task fails, a false notice takes about
exp(2 · 0.1 · 6 / 0.09) ≈ 600,000 returns; a mean that falls by 0.4 is said after about 20."""
_SILENT = 5


@dataclass(frozen=True)
class Notice:
    """Something worth saying. kind: `reward_drift` or `reward_silent`."""

    kind: str
    reason: str


class DriftWatch:
    """Page's test on returns of one task skill, both ways (Page 1954), and successes that nobody paid for."""

    def __init__(self, skill: str) -> None:
        self._skill = skill
        self._count = 0
        self._mean = 0.0
        self._low = self._high = 0.0
        self._unpaid = 0

    def add(self, share: float, success: bool | None) -> list[Notice]:
        """Take a return in shares of the full one, and what another judge says of the task; the notices it gives."""
        out = []
        self._unpaid = self._unpaid + 1 if success and share < 1.0 - 1e-6 else 0
        if self._unpaid == _SILENT:
            text = f"{self._skill}: {_SILENT} successes in a row were not paid in full, the last {share:.3g} of 1"
            out.append(Notice("reward_silent", text))
        if self._count < _REFERENCE:
            self._count += 1
            self._mean += (share - self._mean) / self._count
            return out
        self._low = max(0.0, self._low + self._mean - share - _SLACK)
        self._high = max(0.0, self._high + share - self._mean - _SLACK)
        if max(self._low, self._high) > _LIMIT:
            way = "fell" if self._low > self._high else "rose"
            text = f"{self._skill}: mean return {way} from {self._mean:.3g}; a new reference is taken"
            out.append(Notice("reward_drift", text))
            self._count, self._mean, self._low, self._high = 0, 0.0, 0.0, 0.0
        return out
