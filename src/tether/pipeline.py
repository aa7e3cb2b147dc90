"""The whole way from sensors to command, in one place. The nodes of the graph do the same, one stage each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tether.bridge.arbiter import Arbitration
from tether.bridge.pairs import PairStage
from tether.bridge.stage import Around, BridgeStage
from tether.contracts import (
    TICKS_PER_DECISION,
    Command,
    Decision,
    ExecutedCommand,
    FusedState,
    GateOutput,
    ImageFeature,
    ImageSample,
    ImuBatch,
    ImuSample,
    JointSample,
    Sample,
    SkillContext,
    Stream,
    TickDelivery,
    TruthSample,
)
from tether.fusion.estimator import Arrivals
from tether.fusion.stage import FusionStage
from tether.ingest.camera import CameraIngest
from tether.ingest.joints import JointIngest, JointReading
from tether.ingest.stages import ImuStage, readings_of
from tether.motion.stage import MotionStage
from tether.policy.stage import PolicyStage
from tether.safety.stage import GateInputs, GateStage


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of one robot, each replaceable behind its interface."""

    imu: ImuStage
    camera: CameraIngest
    joints: JointIngest
    fusion: FusionStage
    policy: PolicyStage
    bridge: BridgeStage
    motion: MotionStage
    gate: GateStage
    pairs: PairStage | None = None
    """Makes (student input, teacher action) pairs out of what passes; set in online training only."""

    @property
    def truth_beside_policy(self) -> bool:
        """Whether a world's truth is there for somebody else than the policy, which must then not see it."""
        return self.pairs is not None or self.bridge.arbitration is Arbitration.ORACLE_TEACHER


@dataclass(frozen=True, eq=False)
class TickTrace:
    """What the pipeline made of one tick; state and decision are set where a decision was due."""

    proposed: Command | None
    gated: GateOutput
    state: FusedState | None
    decision: Decision | None


@dataclass(eq=False)
class _Pending:
    """What has arrived since the previous decision."""

    imu: list[ImuBatch] = field(default_factory=list)
    pictures: list[ImageFeature] = field(default_factory=list)
    joints: list[JointSample] = field(default_factory=list)
    executed: list[ExecutedCommand] = field(default_factory=list)

    def drain(self) -> Arrivals:
        arrivals = Arrivals(self.imu, self.pictures, self.joints, self.executed)
        self.imu, self.pictures, self.joints, self.executed = [], [], [], []
        return arrivals


class Pipeline:
    """Runs the stages in lockstep with a world: one call a tick, a decision every fifth."""

    def __init__(self, stages: Stages) -> None:
        self._s = stages
        self._pending = _Pending()
        self._decision: Decision | None = None

    def reset(self, skill: SkillContext, seed: int) -> None:
        """Start an episode; every stage forgets what it knew."""
        self._pending = _Pending()
        self._decision = None
        self._s.imu.reset()
        self._s.camera.reset()
        self._s.joints.reset()
        self._s.fusion.reset(skill)
        self._s.policy.reset(seed)
        self._s.bridge.reset(skill)
        if self._s.pairs is not None:
            self._s.pairs.reset(skill)
        self._s.motion.reset()
        self._s.gate.reset()

    def tick(self, delivery: TickDelivery) -> TickTrace:
        """From what the world delivered to the command that may reach the motors."""
        s, now_ns = self._s, delivery.stamp_ns
        batch = s.imu.step(delivery.episode, delivery.tick, now_ns, readings_of(_of_type(delivery.samples, ImuSample)))
        pictures = [
            s.camera.ingest(picture, picture.camera, now_ns, picture.ref.sequence).feature
            for picture in _of_type(delivery.samples, ImageSample)
        ]
        raw_joints = _of_type(delivery.samples, JointSample)
        judged = [s.joints.ingest(JointReading.of(joint), now_ns, joint.ref.sequence) for joint in raw_joints]
        joints = [result.sample for result in judged if result.sample is not None]
        self._keep(batch, pictures, joints, delivery.executed)

        state = decision = None
        if delivery.tick % TICKS_PER_DECISION == 0:
            arrivals = self._pending.drain()
            state = s.fusion.step(delivery.tick // TICKS_PER_DECISION, now_ns, arrivals)
            truths = _of_type(delivery.samples, TruthSample)
            truth = truths[-1] if truths else None
            output = s.policy.step(state, truth if s.policy.is_oracle or not s.truth_beside_policy else None)
            around = Around(state, arrivals, truth)
            decision = self._decision = s.bridge.step(output, around)
            s.camera.decided(decision.action)
            if s.pairs is not None:
                s.pairs.step(delivery.episode, around, output.action, decision)

        assert self._decision is not None  # tick 0 is a decision tick
        action = self._decision.action
        proposed = s.motion.tick(
            delivery.tick, now_ns, joints, batch.samples, action, action_age_ns=now_ns - action.stamp_ns
        )
        inputs = GateInputs(
            joints=raw_joints,  # the gate judges for itself, and stops where it must refuse
            imu=batch.samples,
            pictures=[picture.ref for picture in pictures if picture.rejected is None],
            refused=[(Stream.CAMERA, picture.rejected) for picture in pictures if picture.rejected is not None],
            executed=[] if delivery.executed is None else [delivery.executed],
            actions=[] if decision is None else [decision.action],
            proposed=[] if proposed is None else [proposed],
        )
        s.gate.take(now_ns, now_ns, inputs)
        gated = s.gate.tick(delivery.tick, now_ns, now_ns)
        return TickTrace(proposed, gated, state, decision)

    def _keep(
        self,
        batch: ImuBatch,
        pictures: list[ImageFeature],
        joints: list[JointSample],
        executed: ExecutedCommand | None,
    ) -> None:
        self._pending.imu.append(batch)
        self._pending.pictures += pictures
        self._pending.joints += joints
        if executed is not None:
            self._pending.executed.append(executed)


_S = TypeVar("_S", ImuSample, ImageSample, JointSample, TruthSample)


def _of_type(samples: Sequence[Sample], kind: type[_S]) -> list[_S]:
    return [sample for sample in samples if isinstance(sample, kind)]
