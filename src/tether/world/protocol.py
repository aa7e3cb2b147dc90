"""The one face of every world: MuJoCo, Isaac Sim, the physical robot."""

from __future__ import annotations

from typing import Protocol

from tether.contracts import Command, EpisodeSpec, TickDelivery, TruthSample
from tether.world.profile import Profile
from tether.world.task import Task


class World(Protocol):
    """What the robot acts in: MuJoCo, Isaac Sim or the physical robot, behind one face.

    A tick lasts TICK_NS. `reset` starts an episode and delivers tick 0; `step(command)` applies the gated command over
    one tick and returns what was delivered by its end.
    """

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints that it takes commands for."""

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Start an episode at `start_ns`; the same spec gives the same episode bit for bit, stamps shifted."""

    def step(self, command: Command | None) -> TickDelivery:
        """Advance one tick. None means that no gated command came: the world's own watchdog counts on it."""

    def close(self) -> None:
        """Free what the world holds (renderer, GL context, devices)."""


class SimulatedWorld(World, Protocol):
    """A world that plays a task under a profile, as a node of the graph runs it."""

    @property
    def task(self) -> Task:
        """What is to be done, and where things lie."""

    @property
    def profile(self) -> Profile:
        """How far the world is from ideal."""

    def measure(self) -> TruthSample:
        """The state now, for the reward server."""

    def skip(self, lost_ns: int) -> None:
        """Real time went on by `lost_ns` without the world."""
