"""What an agent moves: a robot that shows facts and lets one skill at a time choose its primitives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tether.agent.calls import Call
from tether.agent.declaration import TaskSkill
from tether.agent.facts import Facts
from tether.contracts import U8
from tether.errors import TetherError


class WorldEndedError(TetherError):
    """The world that the robot acts in is over."""


class Robot(Protocol):
    """One robot. Time passes in `advance` only; where no skill runs it stands still, held by its gate."""

    @property
    def facts(self) -> Facts:
        """What the sensors say now."""

    @property
    def evidence(self) -> Mapping[str, float]:
        """The numbers behind the facts, SI."""

    @property
    def fault(self) -> str | None:
        """What became of the running skill's worker, None while it is well."""

    def now_ns(self) -> int:
        """Its clock, that of the facts' stamps and of deadlines."""

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        """Let the skill choose from the next decision on, for this call, whose parameters are complete.

        step: k of n. Starting a worker takes none of the skill's time.
        """

    def advance(self) -> None:
        """Let time pass until after the next decision, 50 ms. Raises WorldEndedError."""

    def stop(self, *, kill: bool) -> None:
        """No skill from the next decision on. kill: its worker with it."""

    def judged(self) -> Mapping[str, bool]:
        """What a judge outside says of the facts; empty where there is none. For graphs and measurements only."""

    def picture(self) -> U8 | None:
        """The newest picture, (height, width, 3), for a person to look at."""
