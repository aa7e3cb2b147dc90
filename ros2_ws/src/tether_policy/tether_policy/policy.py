"""Fused state in, the policy's hybrid action out. An oracle also takes the world's truth; nobody else can."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.runtimes import RuntimeReporter

from tether import topics
from tether.assembly import make_policy_stage
from tether.codec import convert, sensors
from tether.contracts import FusedState, Stream, TruthSample
from tether.errors import TetherError
from tether.lockstep import Needs, TickInputs
from tether.student.naming import is_student
from tether_policy.versions import Versions

STATE = "fused_state"


class PolicyNode(StageNode):
    """See `tether.policy`."""

    needs = Needs(at_decision=frozenset({STATE}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("policy")
        self._name = self.param("policy", "classic", "name of the policy")
        self._versions = self.param("versions", "", "online training: folder of new versions; empty: none are taken")

    def build(self) -> None:
        """Make the stage, its inlets and outlets; the truth channel exists for oracles only."""
        self._stage = make_policy_stage(self._name)
        self._runtimes = RuntimeReporter(self, lambda: self._stage.runtimes)
        self._models: Versions | None = None
        if is_student(self._name) or self._versions:
            self._models = Versions(self, self._name, self._stage.policy, self._versions)
            self._undo.append(self._models.close)
        self._episode = 0
        self._truth: TruthSample | None = None
        self._output = self.outlet(topics.POLICY_OUTPUT)
        self.needs = Needs(
            streams=frozenset({Stream.TRUTH} if self._stage.is_oracle else ()), at_decision=frozenset({STATE})
        )
        self.renew_inbox()
        self.world_inlets()
        self.inlet(topics.FUSED_STATE, lambda msg: self._on_state(convert.fused_state_from(msg), int(msg.episode)))
        if self._stage.is_oracle:
            self.inlet(topics.TRUTH, lambda msg: self._on_truth(convert.truth_from(msg), int(msg.episode)))

    def on_episode(self, start: Any) -> None:
        """Forget, and start the policy's own random stream."""
        self._episode = int(start.episode)
        self._truth = None
        self._stage.reset(int(start.seed))
        self._runtimes.begin(convert.to_ns(start.stamp))

    def on_tick(self, inputs: TickInputs) -> None:
        """Decide where a decision is due."""
        for _, truth in inputs.samples.get(Stream.TRUTH, []):
            self._truth = truth
        if STATE in inputs.results:
            self._publish(inputs.results[STATE])

    def _on_state(self, state: FusedState, episode: int) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(STATE, episode, state.decision_id, state)
        elif episode == self._episode and not (self._stage.is_oracle and self._truth is None):
            self._publish(state)

    def _on_truth(self, truth: TruthSample, episode: int) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.TRUTH, truth.ref.stamp_ns, truth)
        elif episode == self._episode:
            self._truth = truth

    def _publish(self, state: FusedState) -> None:
        start_ns = time.monotonic_ns()
        if self._models is not None:
            self._models.before_decision()
        try:
            output = self._stage.step(state, self._truth)
        except (TetherError, ValueError) as error:
            text = f"decision {state.decision_id} refused: {error}"
            if self.mode is Mode.LOCKSTEP:  # everybody waits for this decision, and none will come
                self.fail(text)
            else:
                self.event(sensors.Severity.ERROR, "decision_refused", text, {"decision_id": state.decision_id})
            return
        if self._models is not None:
            self._models.decided(state)
        if self.mode is Mode.REALTIME:
            output = dataclasses.replace(output, latency_ns={"policy": time.monotonic_ns() - start_ns})
        self._output.send(convert.policy_output_message(output, self._episode))
        self._runtimes.look(state.stamp_ns)


def main() -> None:
    """Entry point."""
    sys.exit(run([PolicyNode]))
