"""A task's deadline from end to end: watched while the task runs, and how it was kept once the task has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timeliness:
    """How a task stood to its deadline when it ended. in_time: True, it was done within it; False, it ran out before
    the task was done; None, the task ended otherwise, with time left."""

    deadline_s: float
    took_s: float
    in_time: bool | None

    @property
    def slack_s(self) -> float:
        """What was left, in seconds; below zero: by how much it was overrun."""
        return self.deadline_s - self.took_s

    def fields(self) -> dict[str, Any]:
        """For JSON, with the slack."""
        return {**vars(self), "slack_s": self.slack_s}

    def __str__(self) -> str:
        verdict = {True: "met", False: "missed", None: "ended otherwise before it"}[self.in_time]
        return f"deadline {self.deadline_s:g} s: {verdict} after {self.took_s:.2f} s, slack {self.slack_s:.2f} s"


class DeadlineWatch:
    """Begins with the task. clock_ns: the world's time in lockstep, a steady clock where time is real."""

    def __init__(self, deadline_s: float, clock_ns: Callable[[], int]) -> None:
        self.deadline_s, self._clock_ns = deadline_s, clock_ns
        self._begun_ns = clock_ns()
        self._deadline_ns = round(deadline_s * 1e9)

    def left_ns(self) -> int:
        """Until the deadline; zero or below once it is over."""
        return self._deadline_ns - (self._clock_ns() - self._begun_ns)

    def over(self) -> bool:
        """Whether the time has run out."""
        return self.left_ns() <= 0

    def ended(self, *, done: bool) -> Timeliness:
        """The task has ended. done: its goal was verified."""
        left_ns = self.left_ns()
        in_time = True if done else (False if left_ns <= 0 else None)
        return Timeliness(self.deadline_s, (self._deadline_ns - left_ns) * 1e-9, in_time)
