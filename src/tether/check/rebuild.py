"""Rebuilds what each stage said in a recorded episode, from the samples that the stage's record names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tether.assembly import (
    make_bridge_stage,
    make_fusion_stage,
    make_gate_stage,
    make_motion_stage,
    make_policy_stage,
)
from tether.check.recording import Episode, Recording
from tether.codec import convert, sensors
from tether.codec.values import floats
from tether.contracts import (
    Command,
    Decision,
    ExecutedCommand,
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

    def imu(self, refs: Iterable[SampleRef]) -> tuple[ImuSample, ...]:
        """IMU samples as ingest hands them on."""
        out = []
        for ref in refs:
            reading = sensors.imu_reading(self._raw(ref))
            gyro, accel = floats(reading.angular_velocity), floats(reading.linear_acceleration)
            out.append(ImuSample(ref, gyro, accel))
        return tuple(out)

    def joints(self, refs: Iterable[SampleRef]) -> list[JointSample]:
        """Joint samples."""
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


def rebuild(episode: Episode, samples: Samples) -> Iterator[Step]:
    """Every step of the stages in order of time: decisions first, then commands, then the gate's ticks."""
    decisions: dict[int, Decision] = {}
    yield from _decisions(episode, samples, decisions)
    commands: dict[int, Command | None] = {}
    yield from _commands(episode, samples, decisions, commands)
    if episode.plans:
        yield from _verdicts(episode, samples, decisions, commands)


def _decisions(episode: Episode, samples: Samples, decisions: dict[int, Decision]) -> Iterator[Step]:
    start = episode.start
    number = int(start.episode)
    fusion, policy = make_fusion_stage(start.policy), make_policy_stage(start.policy)
    bridge = make_bridge_stage()
    fusion.reset(convert.skill_from(start.skill))
    policy.reset(int(start.seed))
    bridge.reset()
    for decision_id, recorded in sorted(episode.states.items()):
        try:
            state = fusion.step(decision_id, convert.to_ns(recorded.stamp), _arrivals(recorded, number, samples))
            output_record = episode.outputs.get(decision_id)
            truths = [] if output_record is None else _of(convert.refs_from(output_record.used), Stream.TRUTH)
            truth = samples.truth(truths)
        except MissingSampleError as error:
            yield Step("fusion", decision_id, recorded, None, error.ref)
            return
        yield Step("fusion", decision_id, recorded, convert.fused_state_message(state, number))
        if output_record is None:
            continue  # the recording ends between two stages
        output = policy.step(state, truth)
        yield Step("policy", decision_id, output_record, convert.policy_output_message(output, number))
        decisions[decision_id] = bridge.step(output)
        if decision_id in episode.decisions:
            rebuilt = convert.decision_message(decisions[decision_id], number)
            yield Step("opd_bridge", decision_id, episode.decisions[decision_id], rebuilt)


def _commands(
    episode: Episode, samples: Samples, decisions: dict[int, Decision], commands: dict[int, Command | None]
) -> Iterator[Step]:
    motion = make_motion_stage(episode.start.profile)
    number = int(episode.start.episode)
    for tick, recorded in sorted(episode.proposed.items()):
        refs = convert.refs_from(recorded.used)
        decision = decisions.get(int(recorded.decision_id))
        stamp_ns = convert.to_ns(recorded.stamp)
        try:
            joints, imu = samples.joints(_of(refs, Stream.JOINTS)), samples.imu(_of(refs, Stream.IMU))
        except MissingSampleError as error:
            yield Step("primitive_executor", tick, recorded, None, error.ref)
            return
        action = decision.action if decision is not None else None
        commands[tick] = motion.tick(tick, stamp_ns, joints, imu, action)
        rebuilt = convert.proposed_message(commands[tick], number, tick, stamp_ns, refs)
        yield Step("primitive_executor", tick, recorded, rebuilt)


def _verdicts(
    episode: Episode, samples: Samples, decisions: dict[int, Decision], commands: dict[int, Command | None]
) -> Iterator[Step]:
    """Lockstep only: in real time the gate's steady clock and the times of arrival are its own."""
    gate = make_gate_stage(episode.start.policy)
    gate.reset()
    for tick, recorded in sorted(episode.verdicts.items()):
        if tick not in episode.plans or tick not in episode.batches:
            return
        plan = convert.tick_plan_from(episode.plans[tick])
        try:
            inputs = _gate_inputs(plan, convert.imu_batch_from(episode.batches[tick]), samples, decisions, commands)
        except MissingSampleError as error:
            yield Step("safety_supervisor", tick, recorded, None, error.ref)
            return
        gate.take(plan.stamp_ns, plan.stamp_ns, inputs)
        output = gate.tick(tick, plan.stamp_ns, plan.stamp_ns)
        refs = convert.refs_from(recorded.used)
        yield Step("safety_supervisor", tick, recorded, convert.verdict_message(output, int(recorded.episode), refs))


def _gate_inputs(
    plan: TickPlan,
    batch: ImuBatch,
    samples: Samples,
    decisions: dict[int, Decision],
    commands: dict[int, Command | None],
) -> GateInputs:
    pictures = samples.pictures(_of(plan.due, Stream.CAMERA))
    decision = decisions.get(plan.decision_id) if plan.decision_id is not None else None
    command = commands.get(plan.tick)
    return GateInputs(
        joints=samples.joints(_of(plan.due, Stream.JOINTS)),
        imu=samples.imu(sample.ref for sample in batch.samples),
        pictures=[picture.ref for picture in pictures if picture.rejected is None],
        executed=samples.executed(_of(plan.due, Stream.EXECUTED)),
        actions=[] if decision is None else [decision.action],
        proposed=[] if command is None else [command],
    )


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
