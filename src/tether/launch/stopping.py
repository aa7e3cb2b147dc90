"""The order in which a graph is stopped, and how a process that does not listen is made to.

The lifecycle manager goes first: it deactivates the nodes in reverse order while all of them still live. Then
the others, together. The safety gate outlives everything that commands it, and the world or driver outlives
the gate, so that the gate's last command still arrives.
"""

from __future__ import annotations

import enum
import logging
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

_POLL_S = 0.02
_logger = logging.getLogger(__name__)


class Stage(enum.IntEnum):
    """Stages of stopping, in order."""

    MANAGER = 0
    NODES = 1
    GATE = 2
    WORLD = 3


_STAGES = {
    ("tether_bringup", "lifecycle_manager"): Stage.MANAGER,
    ("tether_safety", "safety_supervisor"): Stage.GATE,
    ("tether_world", "world"): Stage.WORLD,
    ("tether_robot", "driver"): Stage.WORLD,
}


def stage_of(package: str, executable: str) -> Stage:
    """Return when a package's executable is stopped."""
    return _STAGES.get((package, executable), Stage.NODES)


@dataclass(frozen=True)
class StopTimes:
    """Seconds a process has after SIGINT before SIGTERM, and after that before SIGKILL."""

    interrupt_s: float = 4.0
    terminate_s: float = 2.0


class Stoppable(Protocol):
    """What can be stopped: a child of ours or a process found in /proc."""

    @property
    def name(self) -> str:
        """Name for messages."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""

    def send(self, signal_number: int) -> bool:
        """Send a signal; return False when there is nobody to get it."""


@dataclass(frozen=True)
class Stubborn:
    """A process that had to be killed, for want of an end in time."""

    name: str
    waited_s: float


def stop_stage(
    processes: Iterable[Stoppable],
    times: Callable[[Stoppable], StopTimes],
    hurry: Callable[[], bool],
) -> list[Stubborn]:
    """Stop the processes of one stage together: SIGINT, SIGTERM, SIGKILL, each process by its times.

    Once `hurry()` is true the remaining times are zero. Returns the processes that had to be killed.
    """
    begun = time.monotonic()
    pending = [process for process in processes if process.is_alive()]
    level = {id(process): 0 for process in pending}
    for process in pending:
        process.send(signal.SIGINT)
    stubborn: list[Stubborn] = []
    while pending:
        now = time.monotonic() - begun
        for process in pending:
            limits = times(process)
            if level[id(process)] == 0 and (hurry() or now >= limits.interrupt_s):
                _logger.warning("'%s' did not stop within %.1f s of SIGINT, sending SIGTERM", process.name, now)
                process.send(signal.SIGTERM)
                level[id(process)] = 1
            if level[id(process)] == 1 and (hurry() or now >= limits.interrupt_s + limits.terminate_s):
                _logger.error("'%s' did not stop within %.1f s, sending SIGKILL", process.name, now)
                process.send(signal.SIGKILL)
                level[id(process)] = 2
                stubborn.append(Stubborn(process.name, now))
        time.sleep(_POLL_S)
        pending = [process for process in pending if process.is_alive()]
    return stubborn


def by_stage(processes: Iterable[tuple[int, Stoppable]]) -> Sequence[list[Stoppable]]:
    """Group (stage, process) pairs by stage, the first to stop first."""
    groups: dict[int, list[Stoppable]] = {}
    for stage, process in processes:
        groups.setdefault(stage, []).append(process)
    return [groups[stage] for stage in sorted(groups)]
