"""The MuJoCo world on the topics of a robot: sensors out, gated commands in.

Lockstep: every tick waits for the gate's command for that tick. Real time: a tick every 10 ms of the steady clock,
with whatever command has come; the world's own watchdog stops the robot where none does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import __version__, topics
from tether.assembly import make_world, needs_truth, policy_kit, settings_hashes, skill_of_task
from tether.bridge.arbiter import Arbitration
from tether.codec import convert, sensors
from tether.codec.gated import GatedHalves
from tether.contracts import (
    TICK_NS,
    TICKS_PER_DECISION,
    Command,
    EpisodeSpec,
    ImageSample,
    ImuSample,
    JointSample,
    Sample,
    SampleRef,
    Stream,
    TickDelivery,
    TickPlan,
    TruthSample,
)
from tether.errors import Fault, InvalidInputError, TetherError
from tether.eval.journal import append_result
from tether.event_kinds import RUN_CONFIG
from tether.lockstep import TickInputs
from tether.results import library_versions
from tether.world.protocol import SimulatedWorld

FIRST_EPISODE_NS = 1_000_000_000
"""Lockstep time starts here: a stamp of zero is what a broken driver sends."""
BETWEEN_EPISODES_NS = 1_000_000_000
MAX_CATCH_UP = 10


class WorldNode(StageNode):
    """See `tether.world`."""

    niceness = -3
    hearing_priority = 10

    def __init__(self) -> None:
        super().__init__("world")
        self._policy = self.param("policy", "classic", "policy that will act; an oracle gets the truth channel")
        self._arbitration = Arbitration(self.param("arbiter", "student_alone", "how the bridge decides"))
        self._spool = self.param("spool", "", "not empty: the bridge makes pairs, whose labels need the truth")
        self._task = self.param("task", "pick", "name or file of the task")
        self._profile = self.param("profile", "real", "name or file of the profile")
        self._episodes = self.param("episodes", 1, "number of episodes to run")
        self._seed = self.param("seed", 0, "seed of the first episode; the next ones count up")
        self._truth_age_ns = 1_000_000 * self.param("truth_age_ms", 0, "age of the truth an oracle is given")
        self._measures = self.param("measures", False, "publish the world's state for the reward server")
        self._results = self.param("results", "", "file to which each episode's result is added as a line of JSON")
        self._command_deadline_s = self.param("command_deadline_s", 30.0, "lockstep: longest wait for the gate")

    def build(self) -> None:
        """Make the world and its outlets; the truth channel and the camera exist only where the policy needs them."""
        self._check_parameters()
        self._oracle = needs_truth(self._policy, self._arbitration) or self._spool != ""
        truth_age_ns = self._truth_age_ns if self._oracle else None
        self._world = self.open_world(truth_age_ns, policy_kit(self._policy).pictures)
        self._undo.append(self._world.close)
        self._send = {
            ImuSample: self.outlet(topics.IMU),
            JointSample: self.outlet(topics.JOINT_STATES),
            ImageSample: self.outlet(topics.IMAGE),
        }
        self._info = self.outlet(topics.CAMERA_INFO)
        if self._oracle:
            self._send[TruthSample] = self.outlet(topics.TRUTH)
        self._measured = self.outlet(topics.MEASURES) if self._measures else None
        self._clock_out = self.outlet(topics.CLOCK)
        self._executed = self.outlet(topics.EXECUTED)
        self._start = self.outlet(topics.EPISODE_START)
        self._end = self.outlet(topics.EPISODE_END)
        self._plan = self.outlet(topics.TICK_PLAN)
        self.optional(self._clock_out, self._end, *(() if self.mode is Mode.LOCKSTEP else (self._plan,)))
        self.inlet(topics.JOINT_COMMAND, self._on_joint_command)
        self.inlet(topics.CMD_VEL, self._on_cmd_vel)
        self._commands = GatedHalves()
        self._episode = -1
        self._delivery: TickDelivery | None = None

    def open_world(self, truth_age_ns: int | None, pictures: bool) -> SimulatedWorld:
        """The world that the node steps; a node of another simulator opens its own here."""
        return make_world(
            self._task,
            self._profile,
            truth_age_ns=truth_age_ns,
            pictures=pictures,
            measures=self._measures,
            steady_watchdog=self.mode is Mode.REALTIME,
        )

    def _check_parameters(self) -> None:
        low = {
            "episodes": (self._episodes, 1),
            "seed": (self._seed, 0),
            "truth_age_ms": (self._truth_age_ns, 0),
            "command_deadline_s": (self._command_deadline_s, 0.1),
        }
        faults = [Fault(name, str(value), f"at least {least}") for name, (value, least) in low.items() if value < least]
        if faults:
            raise InvalidInputError("world", faults, "correct the parameters named")

    def on_activate(self, state: Any) -> Any:
        """Start the first episode."""
        outcome = super().on_activate(state)
        if self.active:
            begin = self._begin = self.create_timer(0.0, self._begin_first, clock=self.steady)
            self._undo.append(lambda: self.destroy_timer(begin))
        return outcome

    def on_deactivate(self, state: Any) -> Any:
        """Stop in the middle of the episode; active again, the world starts with the next one."""
        self._delivery = None
        return super().on_deactivate(state)

    def on_episode(self, start: Any) -> None:
        """The world starts episodes itself."""

    def on_tick(self, inputs: TickInputs) -> None:
        """The world makes the plans itself."""

    # -- episodes ---------------------------------------------------------------------------------------------------

    def _begin_first(self) -> None:
        self._begin.cancel()
        config = {
            "settings": settings_hashes(self._task, self._profile, self._policy),
            "mode": self.mode.value,
            "arbiter": self._arbitration.value,
            "version": __version__,
            "versions": library_versions(),
        }
        self.event(sensors.Severity.INFO, RUN_CONFIG, f"{self._policy} on {self._task}, {self._profile}", config)
        self._next_episode(FIRST_EPISODE_NS)
        if self.mode is Mode.REALTIME:
            self.every(TICK_NS * 1e-9, self._tick_live)
        else:
            self.every(1.0, self._check_deadline)

    def _next_episode(self, start_ns: int) -> None:
        self._episode += 1
        if self.mode is Mode.REALTIME:
            start_ns = time.time_ns()
            self._anchor_ns = time.monotonic_ns()
        self._commands.clear()
        spec = EpisodeSpec(self._task, self._profile, self._seed + self._episode)
        skill = skill_of_task(self._task)
        start = convert.episode_start_message(self._episode, start_ns, spec, self._policy, self._oracle, skill)
        self._start.send(start)
        named = EpisodeSpec(self._world.task.name, self._world.profile.name, spec.seed)
        self._deliver(self._world.reset(named, start_ns))

    def _deliver(self, delivery: TickDelivery) -> None:
        self._delivery = delivery
        self._delivered_s = time.monotonic()
        self._world_ns = delivery.stamp_ns
        due = [self._publish(sample) for sample in delivery.samples]
        if delivery.executed is not None:
            self._executed.send(convert.executed_message(delivery.executed, self._episode))
            due.append(delivery.executed.ref)
        if self._measured is not None:
            self._measured.send(convert.truth_message(self._world.measure(), self._episode))
        self._clock_out.send(sensors.clock_message(delivery.stamp_ns))
        if delivery.result is not None:
            self._end.send(convert.episode_end_message(self._episode, delivery.stamp_ns, delivery.result))
            if self._results:
                append_result(Path(self._results), delivery.result)
            self._finish_episode(delivery.stamp_ns)
            return
        decision_id, remainder = divmod(delivery.tick, TICKS_PER_DECISION)
        if self.mode is Mode.LOCKSTEP:
            decision = decision_id if remainder == 0 else None
            plan = TickPlan(self._episode, delivery.tick, delivery.stamp_ns, tuple(due), decision)
            self._plan.send(convert.tick_plan_message(plan))

    def _publish(self, sample: Sample) -> SampleRef:
        if isinstance(sample, ImuSample):
            self._send[ImuSample].send(sensors.imu_message(sample))
        elif isinstance(sample, JointSample):
            self._send[JointSample].send(sensors.joint_state_message(sample))
        elif isinstance(sample, ImageSample):
            self._info.send(sensors.camera_info_message(sample.camera, sample.ref.stamp_ns))
            self._send[ImageSample].send(sensors.image_message(sample))
        elif isinstance(sample, TruthSample):
            self._send[TruthSample].send(convert.truth_message(sample, self._episode))
        return sample.ref

    def _finish_episode(self, stamp_ns: int) -> None:
        if self._episode + 1 < self._episodes:
            self._next_episode(stamp_ns + BETWEEN_EPISODES_NS)
            return
        self._delivery = None
        self.event(sensors.Severity.INFO, "run_complete", f"{self._episodes} episodes")
        self.finish()

    # -- commands ---------------------------------------------------------------------------------------------------

    def _on_joint_command(self, msg: Any) -> None:
        self._commands.put_joints(msg)
        self._step_if_complete()

    def _on_cmd_vel(self, msg: Any) -> None:
        self._commands.put_twist(msg)
        self._step_if_complete()

    def _step_if_complete(self) -> None:
        """Lockstep: go on once both halves of the command for this tick have come."""
        if self.mode is Mode.REALTIME or self._delivery is None:
            return
        if self._commands.stamp_ns() == self._delivery.stamp_ns:
            self._deliver(self._step())

    def _take_command(self) -> Command | None:
        """The newest command, once; None where none has come or the gate does not know the joints yet."""
        pair = self._commands.take()
        if pair is None or self._delivery is None:
            return None
        joints, twist = pair
        return sensors.gated_command(joints, twist, self._delivery.tick) if joints.name else None

    def _step(self) -> TickDelivery:
        """One tick of the world. A command that it refuses moves nothing, and counts as none for its watchdog."""
        try:
            return self._world.step(self._take_command())
        except TetherError as error:
            self.complain(Stream.EXECUTED, "command_refused", str(error))
            return self._world.step(None)

    def _tick_live(self) -> None:
        if self._delivery is None:
            return
        due = (time.monotonic_ns() - self._anchor_ns) // TICK_NS - self._delivery.tick
        if due > MAX_CATCH_UP:
            slip_ns = (due - 1) * TICK_NS
            self._anchor_ns += slip_ns
            self._world.skip(slip_ns)
            self.event(sensors.Severity.WARN, "realtime_slip", f"the world lost {slip_ns / 1e9:.2f} s of real time")
            due = 1
        episode = self._episode
        for _ in range(due):
            if self._delivery is None or self._episode != episode:
                return  # the next episode begins at the present, with nothing to catch up
            # A picture may take longer to render than commands may stay away: what came meanwhile counts.
            self.take_arrived(topics.JOINT_COMMAND, topics.CMD_VEL)
            self._deliver(self._step())

    def _check_deadline(self) -> None:
        if self._delivery is None or time.monotonic() - self._delivered_s < self._command_deadline_s:
            return
        tick, stamp_ns = self._delivery.tick, self._delivery.stamp_ns
        self._delivery = None
        text = f"no gated command for tick {tick} ({stamp_ns} ns) within {self._command_deadline_s:g} s"
        self.event(sensors.Severity.ERROR, "command_missing", text, {"episode": self._episode, "tick": tick})
        self.finish(exit_status=1)


def main() -> None:
    """Entry point."""
    sys.exit(run([WorldNode]))
