"""Rebuilds what each stage said in a recorded episode, from the samples that the stage's record names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tether.agent.domain import load_domain
from tether.agent.ordered import THREADS
from tether.agent.orders import order_from, report_from
from tether.agent.recorded import RecordedSkills
from tether.assembly import (
    make_bridge_stage,
    make_fusion_stage,
    make_gate_stage,
    make_joint_ingest,
    make_motion_stage,
    make_policy_stage,
    skills,
)
from tether.bridge.arbiter import Arbitration
from tether.bridge.stage import Around
from tether.check.recording import Episode, Recording
from tether.codec import convert, sensors
from tether.codec.values import floats
from tether.contracts import (
    Command,
    Decision,
    ExecutedCommand,
    FusedState,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    SampleRef,
    Stream,
    TickPlan,
)
from tether.errors import TetherError
from tether.fusion.estimator import Arrivals
from tether.policy.stage import PolicyStage
from tether.runtimes.timeline import StampClock
from tether.safety.stage import GateInputs


class MissingSampleError(TetherError):
    """A stage used a sample that the bag does not hold."""

    def __init__(self, ref: SampleRef) -> None:
        self.ref = ref
        super().__init__(f"{ref.stream.value} sample of {ref.stamp_ns} ns is not in the bag")


@dataclass(frozen=True, eq=False)
class Step:
    """One step of one stage, as recorded and as rebuilt; `rebuilt` is None where a sample is missing."""

    stage: str
    number: int
    recorded: Any
    rebuilt: Any
    missing: SampleRef | None = None


class Samples:
    """Looks recorded samples up by their names."""

    def __init__(self, recording: Recording) -> None:
        self._samples = recording.samples
        self._features = recording.features
        self._joints = make_joint_ingest()

    def imu(self, refs: Iterable[SampleRef]) -> tuple[ImuSample, ...]:
        """IMU samples as ingest hands them on."""
        out = []
        for ref in refs:
            reading = sensors.imu_reading(self._raw(ref))
            gyro, accel = floats(reading.angular_velocity), floats(reading.linear_acceleration)
            out.append(ImuSample(ref, gyro, accel))
        return tuple(out)

    def joints(self, refs: Iterable[SampleRef]) -> list[JointSample]:
        """Joint samples as ingest hands them on: the commanded joints, in their order."""
        made = []
        for ref in refs:
            self._joints.reset()  # that the stamp was admitted stands in the recording; only the content is judged
            reading = sensors.joint_reading(self._raw(ref))
            made.append(self._joints.ingest(reading, ref.stamp_ns, ref.sequence).sample)
        return [sample for sample in made if sample is not None]

    def raw_joints(self, refs: Iterable[SampleRef]) -> list[JointSample]:
        """Joint samples as they came, which is how the gate takes them."""
        return [sensors.joint_sample_from(self._raw(ref), ref.sequence) for ref in refs]

    def executed(self, refs: Iterable[SampleRef]) -> list[ExecutedCommand]:
        """Executed commands."""
        return [convert.executed_from(self._raw(ref)) for ref in refs]

    def pictures(self, refs: Iterable[SampleRef]) -> list[ImageFeature]:
        """What ingest makes of the pictures; one whose stamp was refused stays refused."""
        out = []
        for ref in refs:
            seen: ImageFeature = self._raw(ref)
            record = self._features.get(ref.stamp_ns)
            rejected = record.rejection if record is not None and not record.accepted else seen.rejected
            out.append(ImageFeature(ref, seen.camera, seen.detections, seen.tokens, rejected))
        return out

    def truth(self, refs: Iterable[SampleRef]) -> Any:
        """The newest truth among `refs`, None without any."""
        newest = max(refs, key=lambda ref: ref.stamp_ns, default=None)
        return None if newest is None else convert.truth_from(self._raw(newest))

    def _raw(self, ref: SampleRef) -> Any:
        try:
            return self._samples[ref.stream][ref.stamp_ns]
        except KeyError:
            raise MissingSampleError(ref) from None


@dataclass(frozen=True)
class Bridging:
    """How the bridge of a run decided. threshold: of the episode's arbiter, its configured one where None."""

    arbitration: Arbitration = Arbitration.STUDENT_ALONE
    threshold: float | None = None


def rebuild(episode: Episode, samples: Samples, bridging: Bridging, clock: StampClock) -> Iterator[Step]:
    """Every step of the stages, in the order in which the run took them; ends at a step whose samples are missing.

    clock: goes by the decisions.

    A decision comes before the commands that follow it, and a tick's command before the gate's verdict on it.
    """
    again = _Rebuilder(episode, samples, bridging, clock)
    decisions = deque(sorted(episode.states))
    try:
        for tick, proposed in sorted(episode.proposed.items()):
            while decisions and again.precedes(decisions[0], proposed):
                yield from again.decision(decisions.popleft())
            yield again.command(tick)
            if again.can_judge(tick):
                yield again.verdict(tick)
        for decision_id in decisions:
            yield from again.decision(decision_id)
    except MissingSampleError as error:
        stage, number, recorded = again.at
        yield Step(stage, number, recorded, None, error.ref)


class _Rebuilder:
    """The stages of one recorded episode, run once more. `at`: the step that is being rebuilt."""

    def __init__(self, episode: Episode, samples: Samples, bridging: Bridging, clock: StampClock) -> None:
        self._clock = clock
        start = episode.start
        skill = convert.skill_from(start.skill)
        self._episode = episode
        self._samples = samples
        self._number = int(start.episode)
        self._fusion, self._policy = make_fusion_stage(start.policy), _policy_of(episode)
        self._bridge = make_bridge_stage(bridging.arbitration, start.profile)
        self._motion = make_motion_stage(start.profile)
        self._gate = make_gate_stage(start.policy, bridging.arbitration)
        self._fusion.reset(skill)
        self._policy.reset(int(start.seed))
        self._bridge.reset(skill, bridging.threshold)
        self._gate.reset()
        self._decisions: dict[int, Decision] = {}
        self._commands: dict[int, Command | None] = {}
        self._judged = 0
        self.at: tuple[str, int, Any] = ("fusion", 0, None)

    def precedes(self, decision_id: int, proposed: Any) -> bool:
        """Whether a decision was made before a command: the command follows it or a later one, or is younger."""
        follows = proposed.has_command and int(proposed.decision_id) >= decision_id
        return follows or convert.to_ns(self._episode.states[decision_id].stamp) <= convert.to_ns(proposed.stamp)

    def decision(self, decision_id: int) -> Iterator[Step]:
        """State, proposal and arbitrated decision, as far as they were recorded."""
        episode, recorded = self._episode, self._episode.states[decision_id]
        self.at = ("fusion", decision_id, recorded)
        stamp_ns = self._clock.stamp_ns = convert.to_ns(recorded.stamp)
        arrivals = _arrivals(recorded, self._number, self._samples)
        state = self._fusion.step(decision_id, stamp_ns, arrivals)
        output_record = episode.outputs.get(decision_id)
        truth = self._truth_of(output_record)
        yield Step("fusion", decision_id, recorded, convert.fused_state_message(state, self._number))
        if output_record is None:
            return  # the recording ends between two stages
        output = self._policy.step(state, truth)
        yield Step("policy", decision_id, output_record, convert.policy_output_message(output, self._number))
        decision_record = episode.decisions.get(decision_id)
        alone = self._bridge.arbitration is Arbitration.STUDENT_ALONE
        if decision_record is None and not alone:
            return
        around = None if alone else self._around(state, decision_record)
        decision = self._decisions[decision_id] = self._bridge.step(output, around)
        if decision_record is not None:
            rebuilt = convert.decision_message(decision, self._number)
            yield Step("opd_bridge", decision_id, decision_record, rebuilt)

    def _truth_of(self, record: Any) -> Any:
        truths = [] if record is None else _of(convert.refs_from(record.used), Stream.TRUTH)
        return self._samples.truth(truths)

    def _around(self, state: FusedState, record: Any) -> Around:
        """What lay around a decision, from the names of the samples that went into it."""
        return Around(state, _arrivals(record, self._number, self._samples), self._truth_of(record))

    def command(self, tick: int) -> Step:
        """What the primitives proposed at a tick."""
        recorded = self._episode.proposed[tick]
        self.at = ("primitive_executor", tick, recorded)
        refs = convert.refs_from(recorded.used)
        decision = self._decisions.get(int(recorded.decision_id))
        stamp_ns = convert.to_ns(recorded.stamp)
        joints = self._samples.joints(_of(refs, Stream.JOINTS))
        imu = self._samples.imu(_of(refs, Stream.IMU))
        action = decision.action if decision is not None else None
        # In real time a command is recorded only where its decision was fresh by the steady clock of then.
        lockstep = recorded.steady_ns == 0
        age_ns = stamp_ns - action.stamp_ns if lockstep and action is not None else 0
        command = self._commands[tick] = self._motion.tick(tick, stamp_ns, joints, imu, action, age_ns)
        rebuilt = convert.proposed_message(command, self._number, tick, stamp_ns, refs)
        return Step("primitive_executor", tick, recorded, rebuilt)

    def can_judge(self, tick: int) -> bool:
        """Whether the gate's tick can be rebuilt: in lockstep, and every tick of it before was.

        In real time the gate's steady clock and the times of arrival are its own.
        """
        episode = self._episode
        recorded = tick in episode.verdicts and tick in episode.plans and tick in episode.batches
        return recorded and tick == self._judged

    def verdict(self, tick: int) -> Step:
        """What the gate made of a tick."""
        episode, recorded = self._episode, self._episode.verdicts[tick]
        self.at = ("safety_supervisor", tick, recorded)
        plan = convert.tick_plan_from(episode.plans[tick])
        self._gate.take(plan.stamp_ns, plan.stamp_ns, self._gate_inputs(plan))
        output = self._gate.tick(tick, plan.stamp_ns, plan.stamp_ns)
        self._judged += 1
        refs = convert.refs_from(recorded.used)
        return Step("safety_supervisor", tick, recorded, convert.verdict_message(output, self._number, refs))

    def _gate_inputs(self, plan: TickPlan) -> GateInputs:
        samples, batch = self._samples, convert.imu_batch_from(self._episode.batches[plan.tick])
        pictures = samples.pictures(_of(plan.due, Stream.CAMERA))
        decision = self._decisions.get(plan.decision_id) if plan.decision_id is not None else None
        command = self._commands.get(plan.tick)
        return GateInputs(
            joints=samples.raw_joints(_of(plan.due, Stream.JOINTS)),
            imu=samples.imu(sample.ref for sample in batch.samples),
            pictures=[picture.ref for picture in pictures if picture.rejected is None],
            refused=[(Stream.CAMERA, picture.rejected) for picture in pictures if picture.rejected is not None],
            executed=samples.executed(_of(plan.due, Stream.EXECUTED)),
            actions=[] if decision is None else [decision.action],
            proposed=[] if command is None else [command],
        )


def _policy_of(episode: Episode) -> PolicyStage:
    """The policy of the run; with an agent, the skills that it ordered."""
    if not episode.reports:
        return make_policy_stage(episode.start.policy)
    orders = {number: order_from(msg) for number, msg in episode.orders.items()}
    reports = {number: report_from(msg) for number, msg in episode.reports.items()}
    return PolicyStage(RecordedSkills(load_domain(), orders, reports), skills(), THREADS)


def _arrivals(recorded: Any, episode: int, samples: Samples) -> Arrivals:
    refs = convert.refs_from(recorded.used)
    imu = samples.imu(_of(refs, Stream.IMU))
    stamp_ns = imu[-1].ref.stamp_ns if imu else 0
    return Arrivals(
        imu=[ImuBatch(episode, 0, stamp_ns, imu)],
        pictures=samples.pictures(_of(refs, Stream.CAMERA)),
        joints=samples.joints(_of(refs, Stream.JOINTS)),
        executed=samples.executed(_of(refs, Stream.EXECUTED)),
    )


def _of(refs: Iterable[SampleRef], stream: Stream) -> list[SampleRef]:
    return [ref for ref in refs if ref.stream is stream]
