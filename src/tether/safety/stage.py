"""The gate's stage in the graph: what came during a tick goes in, the command for the tick comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tether.contracts import (
    Command,
    ExecutedCommand,
    GateOutput,
    HybridAction,
    ImuSample,
    JointSample,
    SampleRef,
    Stream,
)
from tether.safety.breaker import Reward
from tether.safety.guards import Guards
from tether.safety.heartbeat import Beat
from tether.safety.inputs import ServoSample
from tether.safety.stamp_clock import StampClock
from tether.safety.supervisor import Supervisor


@dataclass(frozen=True, eq=False)
class GateInputs:
    """What came for the gate. pictures: names of pictures that passed ingest; refused: why others did not."""

    joints: Sequence[JointSample] = ()
    imu: Sequence[ImuSample] = ()
    pictures: Sequence[SampleRef] = ()
    refused: Sequence[tuple[Stream, str]] = ()
    executed: Sequence[ExecutedCommand] = ()
    actions: Sequence[HybridAction] = ()
    proposed: Sequence[Command] = ()


class GateStage:
    """A supervisor with the times of its surroundings, and with all that has a say beside it.

    auto_arm: arm by itself at the start of an episode; for simulated worlds only, a robot is armed by a
    person.
    """

    def __init__(self, supervisor: Supervisor, auto_arm: bool, guards: Guards | None = None) -> None:
        self.supervisor = supervisor
        settings = supervisor.settings
        self.guards = Guards(settings) if guards is None else guards
        self._auto_arm = auto_arm
        self._ages = settings.ages
        self._late_ns = round(settings.breaker.late_max_ms * 1e6)
        self._stamps = self._stamp_clocks()

    def reset(self) -> None:
        """Start an episode of a simulated world: the gate is as new."""
        self.supervisor.restart()
        self.guards.restart()
        self._stamps = self._stamp_clocks()
        if self._auto_arm:
            self.supervisor.arm("start of an episode in a simulated world")

    def arm(self, reason: str) -> None:
        """A person arms the gate; that also closes a tripped breaker. Raises as `Supervisor.arm`, and then does not."""
        self.supervisor.arm(reason)
        self.guards.acknowledge()

    def take(self, now_ns: int, stamp_ns: int, inputs: GateInputs) -> None:
        """Hand over what came at `now_ns` of the steady clock, `stamp_ns` of the clock of the stamps."""
        gate = self.supervisor
        for joints in inputs.joints:
            gate.on_joints(joints, now_ns, self._age(joints.ref, now_ns, stamp_ns))
        for imu in inputs.imu:
            gate.on_imu(imu, now_ns, self._age(imu.ref, now_ns, stamp_ns))
        for ref in inputs.pictures:
            gate.on_stream(ref, now_ns, self._age(ref, now_ns, stamp_ns))
        for stream, reason in inputs.refused:
            gate.on_refused(stream, reason)
        for executed in inputs.executed:
            gate.on_executed(executed)
        for action in inputs.actions:
            gate.on_decision(action.decision_id, action.primitive)
        for command in inputs.proposed:
            if gate.propose(command, now_ns) is None:
                self.guards.follow(command.source)

    def hear(self, beat: Beat, now_ns: int) -> None:
        """A heartbeat came; real time only, since lockstep has no steady time."""
        self.guards.hear(beat, now_ns)

    def on_servos(self, sample: ServoSample, now_ns: int) -> None:
        """The driver told how the servos are; real time only, since worlds without a bus have none."""
        self.supervisor.on_servos(sample, now_ns)

    def reward(self, reward: Reward, now_ns: int, stamp_ns: int) -> None:
        """A reward came at `now_ns` of the steady clock; real time only."""
        breaker = self.guards.breaker
        if breaker is not None:
            clock = self._stamps[Stream.JOINTS]
            doubt = clock.in_doubt(now_ns, self._late_ns)
            age_ns = clock.read_ns(now_ns, stamp_ns, self._late_ns) - reward.stamp_ns
            breaker.observe(reward, age_ns, now_ns, believe_age=not doubt)

    def tick(self, tick: int, now_ns: int, stamp_ns: int) -> GateOutput:
        """One tick; the command carries its number and stamp."""
        gate = self.supervisor
        verdicts, event = self.guards.judge(now_ns, gate.mode)
        if event is not None:
            gate.on_event(*event)
        output = gate.tick(now_ns, verdicts)
        return dataclasses.replace(output, command=dataclasses.replace(output.command, tick=tick, stamp_ns=stamp_ns))

    def _age(self, ref: SampleRef, now_ns: int, stamp_ns: int) -> int:
        clock = self._stamps.get(ref.stream)
        return stamp_ns - ref.stamp_ns if clock is None else clock.age_ns(ref.stamp_ns, now_ns, stamp_ns)

    def _stamp_clocks(self) -> dict[Stream, StampClock]:
        future_ns = round(self._ages.future_max_ms * 1e6)
        streams = (Stream.JOINTS, Stream.IMU, Stream.CAMERA)
        return {s: StampClock(future_ns, round(self._ages.of(s).stamp_age_max_ms * 1e6)) for s in streams}


def for_world(output: GateOutput) -> Command | None:
    """What the world is given: nothing while the gate does not know yet where the joints are."""
    return output.command if output.command.joint_names else None
