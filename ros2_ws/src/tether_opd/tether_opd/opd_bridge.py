"""Proposals in, the one decision that the robot follows out."""

from __future__ import annotations

import sys
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.assembly import make_bridge_stage
from tether.codec import convert
from tether.lockstep import Needs, TickInputs

OUTPUT = "policy_output"


class OpdBridgeNode(StageNode):
    """See `tether.bridge`."""

    needs = Needs(at_decision=frozenset({OUTPUT}))

    def __init__(self) -> None:
        super().__init__("opd_bridge")

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        self._stage = make_bridge_stage()
        self._decision = self.outlet(topics.DECISION)
        self.world_inlets()
        self.inlet(topics.POLICY_OUTPUT, self._on_output)

    def on_episode(self, start: Any) -> None:
        """Forget."""
        self._stage.reset()

    def on_tick(self, inputs: TickInputs) -> None:
        """Arbitrate where a decision is due."""
        if OUTPUT in inputs.results:
            self._publish(inputs.results[OUTPUT])

    def _on_output(self, msg: Any) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(OUTPUT, int(msg.action.episode), int(msg.action.decision_id), msg)
        else:
            self._publish(msg)

    def _publish(self, msg: Any) -> None:
        decision = self._stage.step(convert.policy_output_from(msg))
        self._decision.send(convert.decision_message(decision, int(msg.action.episode)))


def main() -> None:
    """Entry point."""
    sys.exit(run([OpdBridgeNode]))
