"""Decisions and proprioception in, a proposed command every tick out."""

from __future__ import annotations

import sys
import time
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.streams import JointInlet

from tether import topics
from tether.assembly import make_joint_ingest, make_motion_stage
from tether.codec import convert
from tether.contracts import TICK_NS, HybridAction, ImuBatch, JointSample, SampleRef, Stream
from tether.lockstep import Needs, TickInputs, in_order

DECISION = "decision"
IMU = "imu_batch"


class PrimitiveExecutorNode(StageNode):
    """See `tether.motion`."""

    needs = Needs(streams=frozenset({Stream.JOINTS}), every_tick=frozenset({IMU}), at_decision=frozenset({DECISION}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("primitive_executor")
        self._profile = self.param("profile", "real", "name or file of the profile whose servo lag is compensated")

    _imu: list[ImuBatch]
    _used: list[SampleRef]
    _action: HybridAction | None
    _received_ns = 0

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        self._stage = make_motion_stage(self._profile)
        self._episode = self._tick = 0
        self._forget()
        self._proposed = self.outlet(topics.PROPOSED)
        self.world_inlets()
        self._joints = JointInlet(self, make_joint_ingest())
        self.inlet(topics.IMU_BATCH, lambda msg: self._on_imu(convert.imu_batch_from(msg)))
        self.inlet(topics.DECISION, self._on_decision)

    def start_live(self) -> None:
        """Tick on a steady clock."""
        self.every(TICK_NS * 1e-9, self._tick_live)

    def on_episode(self, start: Any) -> None:
        """Forget the primitive that ran."""
        self._episode = int(start.episode)
        self._tick = 0
        self._forget()
        self._joints.reset()
        self._stage.reset()

    def on_tick(self, inputs: TickInputs) -> None:
        """Run one tick of the primitive."""
        self._imu = [inputs.results[IMU]]
        if DECISION in inputs.results:
            self._action = inputs.results[DECISION]
        stamp_ns = inputs.plan.stamp_ns
        age_ns = stamp_ns - self._action.stamp_ns if self._action is not None else 0
        self._publish(inputs.plan.tick, stamp_ns, self._joints.due(inputs), age_ns)

    def _on_imu(self, batch: ImuBatch) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(IMU, batch.episode, batch.tick, batch)
        elif batch.episode == self._episode:
            self._imu.append(batch)

    def _on_decision(self, msg: Any) -> None:
        action = convert.action_from(msg.action)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(DECISION, int(msg.action.episode), action.decision_id, action)
        elif int(msg.action.episode) == self._episode:
            self._action = action
            self._received_ns = time.monotonic_ns()

    def _tick_live(self) -> None:
        age_ns = time.monotonic_ns() - self._received_ns
        self._publish(self._tick, self.now_ns(), self._joints.take(), age_ns)
        self._tick += 1

    def _publish(self, tick: int, stamp_ns: int, joints: list[JointSample], age_ns: int) -> None:
        imu = [sample for batch in self._imu for sample in batch.samples]
        command = self._stage.tick(tick, stamp_ns, joints, imu, self._action, age_ns)
        self._used += [j.ref for j in joints] + [s.ref for s in imu]
        self._imu = []
        if command is None and self.mode is Mode.REALTIME:
            # Nothing is published that would name them, however long this lasts; only the newest count later.
            self._used = list({ref.stream: ref for ref in in_order(self._used)}.values())
            return
        steady_ns = time.monotonic_ns() if self.mode is Mode.REALTIME else 0
        used, self._used = in_order(self._used), []
        message = convert.proposed_message(command, self._episode, tick, stamp_ns, used, steady_ns)
        self._proposed.send(message)

    def _forget(self) -> None:
        self._imu = []
        self._used = []
        self._action = None


def main() -> None:
    """Entry point."""
    sys.exit(run([PrimitiveExecutorNode]))
