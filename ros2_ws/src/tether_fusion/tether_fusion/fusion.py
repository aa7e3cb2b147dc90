"""Everything that has arrived in, one state per decision out."""

from __future__ import annotations

import sys
import time
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run
from tether_ros.runtimes import RuntimeReporter
from tether_ros.streams import JointInlet

from tether import topics
from tether.assembly import make_fusion_stage, make_joint_ingest, skill_of_task
from tether.codec import convert, sensors
from tether.contracts import DECISION_NS, EpisodeSpec, ExecutedCommand, ImageFeature, ImuBatch, JointSample, Stream
from tether.fusion.estimator import Arrivals
from tether.lockstep import Needs, TickInputs

IMU = "imu_batch"
UNSTARTED_S = 1.0
"""For so long fusion waits for somebody to start an episode; by then the other nodes are active, too."""


class FusionNode(StageNode):
    """See `tether.fusion`."""

    needs = Needs(streams=frozenset({Stream.CAMERA, Stream.JOINTS, Stream.EXECUTED}), every_tick=frozenset({IMU}))
    niceness = -6
    realtime_priority = 10

    def __init__(self) -> None:
        super().__init__("fusion")
        self._policy = self.param("policy", "classic", "policy whose state is made")
        self._task = self.param("task", "pick", "name or file of the task, where nobody else starts an episode")
        self._profile = self.param("profile", "real", "name or file of the profile, likewise")

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        self._stage = make_fusion_stage(self._policy)
        self._runtimes = RuntimeReporter(self, lambda: self._stage.runtimes)
        self._episode = self._decision = 0
        self._started = False
        self._forget()
        self._arrival_ns = 0
        self._fused = self.outlet(topics.FUSED_STATE)
        self.world_inlets()
        self.inlet(topics.IMU_BATCH, lambda msg: self._on_imu(convert.imu_batch_from(msg)))
        self.inlet(topics.IMAGE_FEATURE, self._on_feature)
        self._joints = JointInlet(self, make_joint_ingest())
        self.inlet(topics.EXECUTED, self._on_executed)

    def start_live(self) -> None:
        """Decide on a steady clock."""
        self._active_since_s = time.monotonic()
        self.every(DECISION_NS * 1e-9, self._decide_live)

    def on_episode(self, start: Any) -> None:
        """Forget the state."""
        self._episode = int(start.episode)
        self._decision = 0
        self._started = True
        self._forget()
        self._joints.reset()
        self._stage.reset(convert.skill_from(start.skill))
        self._runtimes.begin(convert.to_ns(start.stamp))

    def on_tick(self, inputs: TickInputs) -> None:
        """Keep what is due; at a decision make the state."""
        self._imu.append(inputs.results[IMU])
        self._pictures += [item for _, item in inputs.samples[Stream.CAMERA]]
        self._came_joints += self._joints.due(inputs)
        self._executed += [item for _, item in inputs.samples[Stream.EXECUTED]]
        if inputs.plan.decision_id is not None:
            self._publish(inputs.plan.decision_id, inputs.plan.stamp_ns)

    def _on_imu(self, batch: ImuBatch) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(IMU, batch.episode, batch.tick, batch)
        elif batch.episode == self._episode:
            self._imu.append(batch)
            self._arrived()

    def _on_feature(self, msg: Any) -> None:
        feature = convert.image_feature_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.CAMERA, feature.ref.stamp_ns, feature)
        elif int(msg.episode) == self._episode:
            self._pictures.append(feature)
            self._arrived()

    def _arrived(self) -> None:
        self._arrival_ns = time.monotonic_ns()

    def _on_executed(self, msg: Any) -> None:
        executed = convert.executed_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.EXECUTED, executed.ref.stamp_ns, executed)
        elif int(msg.episode) == self._episode:
            self._executed.append(executed)

    def _decide_live(self) -> None:
        if self._started:
            self._publish(self._decision, self.now_ns())
            self._decision += 1
        elif time.monotonic() - self._active_since_s > UNSTARTED_S:
            self._start_episode()

    def _start_episode(self) -> None:
        """On a robot, and in a replay of somebody else's bag, nobody starts episodes: this node then does, once."""
        self._forget()
        if self.count_publishers(topics.EPISODE_START.name):
            return
        spec = EpisodeSpec(self._task, self._profile, seed=0)
        skill = skill_of_task(self._task)
        start = convert.episode_start_message(0, self.now_ns(), spec, self._policy, False, skill)
        outlet = self.outlet(topics.EPISODE_START)
        self.optional(outlet)
        outlet.send(start)
        self.event(sensors.Severity.INFO, "episode_started", f"nobody else starts episodes: {self._task}")

    def _publish(self, decision_id: int, stamp_ns: int) -> None:
        start_ns = time.monotonic_ns()
        joints = self._came_joints or self._joints.take()
        arrivals = Arrivals(self._imu, self._pictures, joints, self._executed)
        self._forget()
        state = self._stage.step(decision_id, stamp_ns, arrivals)
        times = convert.LOCKSTEP_TIMES
        if self.mode is Mode.REALTIME:
            times = convert.SteadyTimes(self._arrival_ns, start_ns, time.monotonic_ns())
        self._fused.send(convert.fused_state_message(state, self._episode, times))
        self._runtimes.look(stamp_ns)

    def _forget(self) -> None:
        self._imu: list[ImuBatch] = []
        self._pictures: list[ImageFeature] = []
        self._came_joints: list[JointSample] = []
        self._executed: list[ExecutedCommand] = []


def main() -> None:
    """Entry point."""
    sys.exit(run([FusionNode]))
