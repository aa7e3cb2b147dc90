"""The gate in a process of its own: a command or a stop every 10 ms of its own clock, input or no input."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.assembly import make_gate_stage
from tether.bridge.arbiter import Arbitration
from tether.codec import convert, sensors
from tether.codec.convert.guarding import servo_sample_from
from tether.contracts import TICK_NS, Command, SampleRef, Stream
from tether.lockstep import Needs, TickInputs, in_order
from tether.rewards.build import reward_config
from tether.rewards.config import ORDER
from tether.safety.stage import GateInputs
from tether.safety.token import run_key_file
from tether.topics import Topic
from tether_safety.guarding import Guarding
from tether_safety.vouching import Vouching

DECISION = "decision"
IMU = "imu_batch"
PROPOSED = "proposed"
_JUDGED = (
    topics.HEARTBEAT,
    topics.JOINT_STATES,
    topics.IMU_BATCH,
    topics.IMAGE_FEATURE,
    topics.EXECUTED,
    topics.DECISION,
    topics.PROPOSED,
)
"""What each tick holds to an age or a silence, in the order of the way of the data."""


class SafetySupervisorNode(StageNode):
    """See `tether.safety` and docs/safety.md."""

    needs = Needs(
        streams=frozenset({Stream.JOINTS, Stream.CAMERA, Stream.EXECUTED}),
        every_tick=frozenset({IMU, PROPOSED}),
        at_decision=frozenset({DECISION}),
    )
    niceness = -10
    realtime_priority = 20

    def __init__(self) -> None:
        super().__init__("safety_supervisor")
        self._policy = self.param("policy", "classic", "policy that acts; it says which sensors the run has")
        self._arbitration = Arbitration(self.param("arbiter", "student_alone", "how the bridge decides"))
        self._dumps = self.param("dumps", "runs/latest/gate", "folder for the state at a trip of the reward breaker")
        run_key = self.param("run_key", "", "file for the run's key; empty: beside the robot's key")
        self._run_key = Path(run_key) if run_key else run_key_file()
        self._physical = self.param("physical", False, "motors are real: checks cannot be disabled, a person arms")
        self._servo_health = self.param(
            "servo_health", False, "a driver tells how its servos are; always so with motors"
        )
        self._vouching = Vouching(self)

    def build(self) -> None:
        """Make the stage, its inlets and outlets."""
        table = {subgoal.value: reward_config().value.of(subgoal) for subgoal in ORDER}
        rewards = table if self.mode is Mode.REALTIME else None
        vouch = self._vouching.begin(self._policy, self._physical) if self.mode is Mode.REALTIME else []
        self._undo.append(self._vouching.end)
        self._stage = make_gate_stage(
            self._policy,
            self._arbitration,
            physical=self._physical,
            servo_health=self._servo_health,
            rewards=rewards,
            attestations=vouch,
        )
        if self._vouching.was_stopped:
            self._stage.supervisor.emergency_stop("stopped before this process began, and not reset since")
        self._guarding = Guarding(self, self._stage, Path(self._dumps), self._run_key, self._vouching)
        self._episode = self._tick = self._joint_count = 0
        self._used: list[SampleRef] = []
        self._joint_command = self.outlet(topics.JOINT_COMMAND)
        self._cmd_vel = self.outlet(topics.CMD_VEL)
        self._verdict = self.outlet(topics.VERDICT)
        self.optional(self._verdict)
        if not self._physical:
            self.world_inlets()
        if self._physical or self._servo_health:
            self.inlet(topics.DIAGNOSTICS, self._on_diagnostics)
        self.inlet(topics.JOINT_STATES, self._on_joints)
        self.inlet(topics.IMU_BATCH, self._on_imu)
        self.inlet(topics.IMAGE_FEATURE, self._on_picture)
        self.inlet(topics.EXECUTED, self._on_executed)
        self.inlet(topics.DECISION, self._on_decision)
        self.inlet(topics.PROPOSED, self._on_proposed)

    def start_live(self) -> None:
        """Tick on a steady clock, whatever comes or does not."""
        self.every(TICK_NS * 1e-9, self._tick_live)

    def on_episode(self, start: Any) -> None:
        """An episode of a simulated world: the gate is as new. A physical robot has no episodes."""
        self._episode = int(start.episode)
        self._tick = self._joint_count = 0
        self._used = []
        self._stage.reset()
        self._guarding.begin(self._episode)

    def admits(self, topic: Topic, size: int) -> bool:
        """Real time: no more of a topic than there is time to look at. Lockstep runs as fast as it can."""
        return self.mode is Mode.LOCKSTEP or self._stage.guards.intake.admit(topic.name, size, time.monotonic_ns())

    def on_tick(self, inputs: TickInputs) -> None:
        """Lockstep: world time drives the ticks."""
        plan, came = inputs.plan, inputs.samples
        proposed: Command | None = inputs.results[PROPOSED]
        now_ns = plan.stamp_ns
        self._take(
            now_ns,
            now_ns,
            GateInputs(
                joints=[sensors.joint_sample_from(msg, ref.sequence) for ref, msg in came[Stream.JOINTS]],
                imu=inputs.results[IMU].samples,
                pictures=[picture.ref for _, picture in came[Stream.CAMERA] if picture.rejected is None],
                refused=[(Stream.CAMERA, p.rejected) for _, p in came[Stream.CAMERA] if p.rejected is not None],
                executed=[executed for _, executed in came[Stream.EXECUTED]],
                actions=[inputs.results[DECISION]] if DECISION in inputs.results else [],
                proposed=[] if proposed is None else [proposed],
            ),
        )
        self._publish(plan.tick, now_ns, now_ns)

    def _tick_live(self) -> None:
        self.take_arrived(*_JUDGED)
        self._publish(self._tick, time.monotonic_ns(), self.now_ns())
        self._tick += 1

    def _take(self, now_ns: int, stamp_ns: int, inputs: GateInputs) -> None:
        self._used += [j.ref for j in inputs.joints] + [s.ref for s in inputs.imu]
        self._used += [*inputs.pictures, *(executed.ref for executed in inputs.executed)]
        self._stage.take(now_ns, stamp_ns, inputs)

    def _take_live(self, inputs: GateInputs) -> None:
        self._take(time.monotonic_ns(), self.now_ns(), inputs)

    def _publish(self, tick: int, now_ns: int, stamp_ns: int) -> None:
        output = self._stage.tick(tick, now_ns, stamp_ns)
        self._joint_command.send(sensors.joint_command_message(output.command))
        self._cmd_vel.send(sensors.twist_message(output.command))
        steady_ns = now_ns if self.mode is Mode.REALTIME else 0
        self._verdict.send(convert.verdict_message(output, self._episode, in_order(self._used), steady_ns))
        self._used = []
        for change in self._stage.supervisor.changes():
            text = f"{change.source.name} -> {change.target.name} ({change.event.value}): {change.reason}"
            self.event(sensors.Severity.INFO, "gate_mode", text)
            self._vouching.changed(change)
        self._guarding.report()

    def _is_current(self, episode: int) -> bool:
        """Whether something belongs to the episode that runs, not to the one before; a robot has no episodes."""
        return self._physical or episode == self._episode

    # -- inlets: kept for the barrier in lockstep, handed over as they come in real time ----------------------------

    def _on_joints(self, msg: Any) -> None:
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.JOINTS, convert.to_ns(msg.header.stamp), msg)
            return
        sample = sensors.joint_sample_from(msg, self._joint_count)
        if self.is_left_over(sample.ref.stamp_ns):
            return
        self._joint_count += 1
        self._take_live(GateInputs(joints=[sample]))

    def _on_diagnostics(self, msg: Any) -> None:
        sample = servo_sample_from(msg)
        if sample is not None:
            self._stage.on_servos(sample, time.monotonic_ns())

    def _on_imu(self, msg: Any) -> None:
        batch = convert.imu_batch_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(IMU, batch.episode, batch.tick, batch)
        else:
            self._take_live(GateInputs(imu=batch.samples))

    def _on_picture(self, msg: Any) -> None:
        picture = convert.image_feature_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.CAMERA, picture.ref.stamp_ns, picture)
        elif picture.rejected is None:
            self._take_live(GateInputs(pictures=[picture.ref]))
        else:
            self._take_live(GateInputs(refused=[(Stream.CAMERA, picture.rejected)]))

    def _on_executed(self, msg: Any) -> None:
        executed = convert.executed_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_sample(Stream.EXECUTED, executed.ref.stamp_ns, executed)
        elif self._is_current(int(msg.episode)):
            self._take_live(GateInputs(executed=[executed]))

    def _on_decision(self, msg: Any) -> None:
        action = convert.action_from(msg.action)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(DECISION, int(msg.action.episode), action.decision_id, action)
        elif self._is_current(int(msg.action.episode)):
            self._take_live(GateInputs(actions=[action]))

    def _on_proposed(self, msg: Any) -> None:
        command = convert.proposed_from(msg)
        if self.mode is Mode.LOCKSTEP:
            self.inbox().put_result(PROPOSED, int(msg.episode), int(msg.tick), command)
        elif command is not None and self._is_current(int(msg.episode)):
            self._take_live(GateInputs(proposed=[command]))


def main() -> None:
    """Entry point."""
    sys.exit(run([SafetySupervisorNode]))
