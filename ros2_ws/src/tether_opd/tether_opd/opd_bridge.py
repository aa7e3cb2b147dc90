"""Proposals in, the one decision that the robot follows out; beside it, in online training, pairs for a trainer."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.runtimes import RuntimeReporter

from tether import topics
from tether.assembly import arbiter_config, make_bridge_stage, make_pair_stage
from tether.bridge.arbiter import Arbitration, Ruling
from tether.bridge.spool import SpoolWriter
from tether.bridge.stage import SINCE_BEFORE, WithFallback
from tether.bridge.threshold import MovingThreshold
from tether.codec import convert, sensors
from tether.contracts import Decision, PolicyOutput, Source, TruthSample
from tether.event_kinds import ARBITER_THRESHOLD
from tether.fusion.estimator import Arrivals
from tether.lockstep import Needs, TickInputs
from tether_opd.around import AroundInlets

OUTPUT = "policy_output"
_REPORT_S = 5.0
_OUTPUTS_KEPT = 8


class OpdBridgeNode(StageNode):
    """See `tether.bridge`."""

    needs = Needs(at_decision=frozenset({OUTPUT}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("opd_bridge")
        ways = ", ".join(way.value for way in Arbitration)
        self._arbitration = Arbitration(self.param("arbiter", "student_alone", f"how it decides: {ways}"))
        self._profile = self.param("profile", "real", "name or file of the profile, for the twin of a fallback")
        self._spool_folder = self.param("spool", "", "online training: folder for pairs; empty: none are made")

    def build(self) -> None:
        """Make the stage, its inlets and outlets; what is not needed is not listened to."""
        self._stage = make_bridge_stage(self._arbitration, self._profile)
        self._runtimes = RuntimeReporter(self, lambda: self._stage.runtimes)
        self._decision = self.outlet(topics.DECISION)
        self._episode = -1
        self._decided_ns: int | None = None
        self._outputs: dict[int, PolicyOutput] = {}
        config = arbiter_config()
        self._threshold = MovingThreshold(config.tighten, config.threshold)
        self._errors: list[float | None] = []
        self._build_pairs()
        self.world_inlets()
        self.inlet(topics.POLICY_OUTPUT, self._on_output)
        self._around: AroundInlets | None = None
        online = self._pairs is not None
        if online or self._arbitration is not Arbitration.STUDENT_ALONE:
            samples = online or self._arbitration is Arbitration.WITH_FALLBACK
            truth = online or self._arbitration is Arbitration.ORACLE_TEACHER
            self._around = AroundInlets(self, self, samples, truth)
            self.needs = self._around.needs(OUTPUT)
        self.renew_inbox()

    def _build_pairs(self) -> None:
        self._pairs = None
        self._spool: SpoolWriter | None = None
        if self._spool_folder:
            spool = self._spool = SpoolWriter(Path(self._spool_folder))
            self._undo.append(spool.close)
            self._pairs = make_pair_stage(spool.put)
            self.every(_REPORT_S, self._report_pairs)

    def on_episode(self, start: Any) -> None:
        """Forget; with a trainer at work the threshold moves between episodes, and says where to."""
        self._episode = int(start.episode)
        self._decided_ns = None
        self._outputs.clear()
        skill = convert.skill_from(start.skill)
        if self._pairs is not None:
            self._threshold.observe(self._errors)
            self._pairs.reset(skill)
        self._errors.clear()
        self._stage.reset(skill, self._threshold.value)
        self._runtimes.begin(convert.to_ns(start.stamp))
        if self._around is not None:
            self._around.begin(self._episode)
        if isinstance(self._stage, WithFallback):
            data = {"episode": self._episode, "threshold": self._threshold.value}
            text = f"prediction error up to {self._threshold.value:.3f}"
            self.event(sensors.Severity.INFO, ARBITER_THRESHOLD, text, data)

    def on_tick(self, inputs: TickInputs) -> None:
        """Arbitrate where a decision is due."""
        if self._around is not None:
            self._around.tick(inputs)
        if OUTPUT in inputs.results:
            self._decide(inputs.results[OUTPUT])

    def _on_output(self, msg: Any) -> None:
        output, episode = convert.policy_output_from(msg), int(msg.action.episode)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(OUTPUT, episode, output.action.decision_id, output)
        elif self._around is None:
            self._episode = episode
            self._decide(output)
        elif episode == self._episode and self._arbitration is Arbitration.STUDENT_ALONE:
            self._decide(output)  # what is only there for training is not waited for
        elif episode == self._episode:
            self._outputs[output.action.decision_id] = output
            while len(self._outputs) > _OUTPUTS_KEPT:
                del self._outputs[min(self._outputs)]
            self._decide_ready()

    def _decide_ready(self) -> None:
        """Real time: state and proposal come on topics of their own, in either order."""
        for decision_id in sorted(self._outputs):
            around = self._around
            oracle_waits = (
                self._arbitration is Arbitration.ORACLE_TEACHER and around is not None and not around.has_truth
            )
            if around is not None and around.has(decision_id) and not oracle_waits:
                self._decide(self._outputs.pop(decision_id))

    def state_came(self) -> None:
        """Real time: a state came."""
        self._decide_ready()

    def arrivals_came(self, arrivals: Arrivals, arrival_ns: int) -> None:
        """Real time: samples came."""
        if self._pairs is not None:
            self._pairs.take(arrivals, arrival_ns)

    def truth_came(self, truth: TruthSample, arrival_ns: int) -> None:
        """Real time: the truth came, which an oracle's first decision may have waited for."""
        if self._pairs is not None:
            self._pairs.take_truth(truth, arrival_ns)
        self._decide_ready()

    def _decide(self, output: PolicyOutput) -> None:
        decision_id = output.action.decision_id
        known = self._around is not None and self._around.has(decision_id)
        around = self._around.take(decision_id) if self._around is not None and known else None
        decision = self._stage.step(output, around)
        if self.mode is Mode.REALTIME:
            decision = self._timed(decision)
        self._decision.send(convert.decision_message(decision, self._episode))
        self._runtimes.look(output.action.stamp_ns)
        if isinstance(self._stage, WithFallback) and self._stage.ruling is not None:
            self._say_switch(self._stage.ruling, decision)
        if around is None:
            if self._pairs is not None:
                self._pairs.missed("the state came after the decision")
            return
        if decision.action.source is Source.STUDENT:
            self._errors.append(around.state.prediction_error)
        if self._pairs is not None and self.mode is Mode.LOCKSTEP:
            self._pairs.step(self._episode, around, output.action, decision)
        elif self._pairs is not None:
            self._pairs.decided(self._episode, around.state, output.action, decision)

    def _timed(self, decision: Decision) -> Decision:
        """The decision with the steady time since the one before it, which says whether it is late."""
        before_ns, self._decided_ns = self._decided_ns, time.monotonic_ns()
        if before_ns is None:
            return decision
        return replace(decision, latency_ns={**decision.latency_ns, SINCE_BEFORE: self._decided_ns - before_ns})

    def _say_switch(self, ruling: Ruling, decision: Decision) -> None:
        if ruling.switched_from is None:
            return
        data = {
            "episode": self._episode,
            "decision_id": decision.action.decision_id,
            "from": ruling.switched_from.value,
            "to": ruling.in_charge.value,
            "prediction_error": decision.prediction_error,
        }
        self.event(sensors.Severity.WARN, "arbiter_switch", ruling.reason, data)

    def _report_pairs(self) -> None:
        if self._pairs is not None and self._spool is not None:
            data = {"pairs": asdict(self._pairs.stats()), "spool": asdict(self._spool.stats())}
            self.event(sensors.Severity.INFO, "pairs", f"{data['pairs']['made']} pairs", data)


def main() -> None:
    """Entry point."""
    sys.exit(run([OpdBridgeNode]))
