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
)
from tether.safety.supervisor import Supervisor


@dataclass(frozen=True, eq=False)
class GateInputs:
    """What came for the gate. pictures: names of pictures that passed ingest."""

    joints: Sequence[JointSample] = ()
    imu: Sequence[ImuSample] = ()
    pictures: Sequence[SampleRef] = ()
    executed: Sequence[ExecutedCommand] = ()
    actions: Sequence[HybridAction] = ()
    proposed: Sequence[Command] = ()


class GateStage:
    """A supervisor with the times of its surroundings.

    auto_arm: arm by itself at the start of an episode; for simulated worlds only, a robot is armed by a
    person.
    """

    def __init__(self, supervisor: Supervisor, auto_arm: bool) -> None:
        self.supervisor = supervisor
        self._auto_arm = auto_arm

    def reset(self) -> None:
        """Start an episode of a simulated world: the gate is as new."""
        self.supervisor.restart()
        if self._auto_arm:
            self.supervisor.arm("start of an episode in a simulated world")

    def take(self, now_ns: int, stamp_ns: int, inputs: GateInputs) -> None:
        """Hand over what came at `now_ns` of the steady clock, `stamp_ns` of the clock of the stamps."""
        gate = self.supervisor
        for joints in inputs.joints:
            gate.on_joints(joints, now_ns, stamp_ns - joints.ref.stamp_ns)
        for imu in inputs.imu:
            gate.on_imu(imu, now_ns, stamp_ns - imu.ref.stamp_ns)
        for ref in inputs.pictures:
            gate.on_stream(ref, now_ns, stamp_ns - ref.stamp_ns)
        for executed in inputs.executed:
            gate.on_executed(executed)
        for action in inputs.actions:
            gate.on_decision(action.decision_id, action.primitive)
        for command in inputs.proposed:
            gate.propose(command, now_ns)

    def tick(self, tick: int, now_ns: int, stamp_ns: int) -> GateOutput:
        """One tick; the command carries its number and stamp."""
        output = self.supervisor.tick(now_ns)
        return dataclasses.replace(output, command=dataclasses.replace(output.command, tick=tick, stamp_ns=stamp_ns))


def for_world(output: GateOutput) -> Command | None:
    """What the world is given: nothing while the gate does not know yet where the joints are."""
    return output.command if output.command.joint_names else None
