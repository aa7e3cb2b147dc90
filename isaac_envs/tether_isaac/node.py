"""Isaac Lab's world as the node `world` of the graph: the node of the MuJoCo world around another world.

Started by `sim.launch.xml world:=isaac` through `tether_world`'s executable `isaac_world`, which hands over to the
Python of Isaac Lab.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tether_ros.node import Mode
from tether_ros.process import run
from tether_world.world import WorldNode

from tether.errors import Fault, InvalidInputError


class IsaacWorldNode(WorldNode):
    """Lockstep only: physics on a CPU takes several times as long as what it simulates."""

    def __init__(self) -> None:
        super().__init__()
        self._device = self.param("device", "cpu", "what physics runs on: cpu, cuda:0, …")

    def open_world(self, truth_age_ns: int | None, pictures: bool) -> Any:
        """Isaac Lab with one environment of the task; loading it takes from some ten seconds to minutes."""
        if self.mode is not Mode.LOCKSTEP:
            fault = Fault("mode", self.mode.value, "lockstep")
            raise InvalidInputError("Isaac world", [fault], "launch it with mode:=lockstep")
        from tether_isaac.world import open_world  # loads Isaac Lab

        return open_world(
            self._task,
            self._profile,
            device=self._device,
            truth_age_ns=truth_age_ns,
            pictures=pictures,
            measures=self._measures,
        )


def main() -> None:
    """Entry point. All is closed when `run` returns; the interpreter's own end, with Isaac Lab in it, takes minutes."""
    status = run([IsaacWorldNode])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
