"""Success and attempts: was the cube kept up long enough, and how many times did the gripper close for it?"""

from __future__ import annotations

from tether.contracts import TICK_NS, EpisodeResult, EpisodeSpec
from tether.world.task import SuccessSpec

CLOSED_SHARE = 0.60
"""Commanded opening, as a share of the full one, below which the gripper counts as closing."""
OPEN_SHARE = 0.70
"""Commanded opening above which it counts as open again; between the two nothing changes."""


class Failure:
    """Reasons why an episode fails."""

    TIMEOUT = "time ran out"
    ATTEMPTS = "closings used up"
    CUBE_LOST = "cube out of reach"


class Judge:
    """Follows one episode, tick by tick."""

    def __init__(self, spec: EpisodeSpec, rules: SuccessSpec, rest_height_m: float, reach_m: float) -> None:
        self._spec = spec
        self._rules = rules
        self._lifted_z = rest_height_m + rules.lift_m
        self._reach2 = reach_m**2
        self._hold_ticks = round(rules.hold_s * 1e9 / TICK_NS)
        self._limit_ticks = round(rules.time_limit_s * 1e9 / TICK_NS)
        self._ticks = 0
        self._up = 0
        self._closed = False
        self.attempts = 0

    def tick(self, cube_z_m: float, cube_distance2_m2: float, commanded_open_share: float) -> EpisodeResult | None:
        """Judge one tick; the result once the episode has ended.

        cube_z_m: height of the cube's centre; cube_distance2_m2: squared distance from the base on the ground.
        """
        self._ticks += 1
        reopened = self._count(commanded_open_share)
        self._up = self._up + 1 if cube_z_m >= self._lifted_z else 0
        if self._up >= self._hold_ticks:
            return self._end(None)
        if (reopened and self.attempts >= self._rules.max_attempts) or self.attempts > self._rules.max_attempts:
            return self._end(Failure.ATTEMPTS)
        if cube_distance2_m2 > self._reach2:
            return self._end(Failure.CUBE_LOST)
        if self._ticks >= self._limit_ticks:
            return self._end(Failure.TIMEOUT)
        return None

    def _count(self, share: float) -> bool:
        """Count a closing; True when the gripper has just opened again."""
        if not self._closed and share < CLOSED_SHARE:
            self._closed = True
            self.attempts += 1
        elif self._closed and share > OPEN_SHARE:
            self._closed = False
            return True
        return False

    def _end(self, failure: str | None) -> EpisodeResult:
        success = failure is None
        return EpisodeResult(
            spec=self._spec,
            success=success,
            first_attempt_success=success and self.attempts == 1,
            attempts=self.attempts,
            duration_s=self._ticks * TICK_NS * 1e-9,
            failure=failure,
        )
