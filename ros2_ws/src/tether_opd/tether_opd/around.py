"""What the bridge hears besides proposals: states, samples and, for what is called an oracle, the world's truth."""

from __future__ import annotations

from typing import Any, Protocol

from tether_ros.node import Mode, StageNode
from tether_ros.streams import JointInlet

from tether import topics
from tether.assembly import make_joint_ingest
from tether.bridge.stage import Around
from tether.codec import convert
from tether.contracts import ExecutedCommand, FusedState, ImageFeature, ImuBatch, JointSample, Stream, TruthSample
from tether.fusion.estimator import Arrivals
from tether.lockstep import Needs, TickInputs

STATE = "fused_state"
IMU = "imu_batch"
_STATES_KEPT = 8
"""Real time: states whose proposal has not come yet."""


class Listener(Protocol):
    """Real time: told of what came as it comes, and when, on the clock of the stamps."""

    def state_came(self) -> None:
        """A state came, which a proposal may have waited for."""

    def arrivals_came(self, arrivals: Arrivals, arrival_ns: int) -> None:
        """Samples came."""

    def truth_came(self, truth: TruthSample, arrival_ns: int) -> None:
        """The truth came."""


class AroundInlets:
    """Inlets of a bridge that needs more than proposals. samples: arrivals, for a twin or for pairs."""

    def __init__(self, node: StageNode, listener: Listener, samples: bool, truth: bool) -> None:
        self._node = node
        self._truth_wanted = truth
        self._listener = listener
        self.episode = -1
        self._joints: JointInlet | None = None
        self.forget()
        node.inlet(topics.FUSED_STATE, self._on_state)
        if samples:
            node.inlet(topics.IMU_BATCH, self._on_imu)
            node.inlet(topics.IMAGE_FEATURE, self._on_feature)
            self._joints = JointInlet(node, make_joint_ingest())
            node.inlet(topics.EXECUTED, self._on_executed)
        if truth:
            node.inlet(topics.TRUTH, self._on_truth)

    def needs(self, proposal: str) -> Needs:
        """What a tick waits for in lockstep."""
        streams = {Stream.TRUTH} if self._truth_wanted else set()
        if self._joints is not None:
            streams |= {Stream.CAMERA, Stream.JOINTS, Stream.EXECUTED}
        every = frozenset() if self._joints is None else frozenset({IMU})
        return Needs(frozenset(streams), every_tick=every, at_decision=frozenset({proposal, STATE}))

    def begin(self, episode: int) -> None:
        """Start an episode."""
        self.episode = episode
        self.forget()
        if self._joints is not None:
            self._joints.reset()

    def forget(self) -> None:
        """Nothing has come."""
        self._states: dict[int, FusedState] = {}
        self._truth: TruthSample | None = None
        self._clear()

    def tick(self, inputs: TickInputs) -> None:
        """Lockstep: keep what is due."""
        if self._joints is not None:
            self._imu.append(inputs.results[IMU])
            self._pictures += [item for _, item in inputs.samples[Stream.CAMERA]]
            self._came_joints += self._joints.due(inputs)
            self._executed += [item for _, item in inputs.samples[Stream.EXECUTED]]
        for _, truth in inputs.samples.get(Stream.TRUTH, []):
            self._truth = truth
        if STATE in inputs.results:
            self._states[inputs.results[STATE].decision_id] = inputs.results[STATE]

    def has(self, decision_id: int) -> bool:
        """Whether the state of a decision has come."""
        return decision_id in self._states

    @property
    def has_truth(self) -> bool:
        """Whether any truth has come."""
        return self._truth is not None

    def take(self, decision_id: int) -> Around:
        """What lies around a decision, for which `has` says yes; what arrived is handed over once."""
        self._collect_joints()
        state = self._states.pop(decision_id)
        self._states = {number: kept for number, kept in self._states.items() if number > decision_id}
        arrivals = Arrivals(self._imu, self._pictures, self._came_joints, self._executed)
        self._clear()
        return Around(state, arrivals, self._truth)

    # -- inlets -----------------------------------------------------------------------------------------------------

    def _on_state(self, msg: Any) -> None:
        state, episode = convert.fused_state_from(msg), int(msg.episode)
        if self._node.mode is Mode.LOCKSTEP:
            self._node.inbox().put_result(STATE, episode, state.decision_id, state)
        elif episode == self.episode:
            self._states[state.decision_id] = state
            while len(self._states) > _STATES_KEPT:
                del self._states[min(self._states)]
            self._listener.state_came()

    def _on_imu(self, msg: Any) -> None:
        batch = convert.imu_batch_from(msg)
        if self._node.mode is Mode.LOCKSTEP:
            self._node.inbox().put_result(IMU, batch.episode, batch.tick, batch)
        elif batch.episode == self.episode:
            self._imu.append(batch)
            self._came(imu=[batch])

    def _on_feature(self, msg: Any) -> None:
        feature = convert.image_feature_from(msg)
        if self._is_live(feature, int(msg.episode)):
            self._pictures.append(feature)
            self._came(pictures=[feature])

    def _on_executed(self, msg: Any) -> None:
        executed = convert.executed_from(msg)
        if self._is_live(executed, int(msg.episode)):
            self._executed.append(executed)
            self._came(executed=[executed])

    def _on_truth(self, msg: Any) -> None:
        truth = convert.truth_from(msg)
        if self._is_live(truth, int(msg.episode)):
            self._truth = truth
            self._listener.truth_came(truth, self._node.now_ns())

    def _is_live(self, sample: ImageFeature | ExecutedCommand | TruthSample, episode: int) -> bool:
        """Real time: whether a sample is of this episode. Lockstep: no, and it waits for its tick."""
        if self._node.mode is Mode.LOCKSTEP:
            self._node.inbox().put_sample(sample.ref.stream, sample.ref.stamp_ns, sample)
            return False
        return episode == self.episode

    def _came(
        self,
        imu: list[ImuBatch] | None = None,
        pictures: list[ImageFeature] | None = None,
        executed: list[ExecutedCommand] | None = None,
    ) -> None:
        self._listener.arrivals_came(Arrivals(imu or [], pictures or [], [], executed or []), self._node.now_ns())
        self._collect_joints()

    def _collect_joints(self) -> None:
        """Real time: readings are fetched whenever something else comes, so that their arrival is known."""
        if self._joints is None or self._node.mode is Mode.LOCKSTEP:
            return
        joints = self._joints.take()
        if joints:
            self._came_joints += joints
            self._listener.arrivals_came(Arrivals([], [], joints, []), self._node.now_ns())

    def _clear(self) -> None:
        self._imu: list[ImuBatch] = []
        self._pictures: list[ImageFeature] = []
        self._came_joints: list[JointSample] = []
        self._executed: list[ExecutedCommand] = []
