"""What a runner asks of a memory that lasts from task to task, and tells it; `tether.memory.long_term` is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tether.agent.declaration import AgentTask
from tether.agent.domain import State
from tether.agent.graph import RunGraph

RECALLED = "memory"
"""How the reason of a step begins that was recalled."""


@dataclass(frozen=True)
class Recalled:
    """What a task begins with: the steps of a chain that worked, its version, and the chance that it works again."""

    steps: tuple[str, ...]
    sha256: str
    weight: float


class Experience(Protocol):
    """See the module. It is asked once a task and told once, never inside the 20 Hz loop."""

    def recall(
        self, task: AgentTask, state: State, parameters: Mapping[str, float], ways: Mapping[str, str]
    ) -> Recalled | None:
        """The chain to begin with, proved from what is known now; None where there is none."""

    def learn(self, graph: RunGraph, recalled: Recalled | None) -> tuple[str, ...]:
        """Keep what a run taught; why something of it was not kept."""
