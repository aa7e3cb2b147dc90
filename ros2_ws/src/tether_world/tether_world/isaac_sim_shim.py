"""Between the graph and Isaac Sim's ROS 2 bridge, where the two do not speak the same topics.

The bridge's Twist subscriber takes the type without a stamp, so the gate's command for the base is handed on as that,
under a watchdog of its own; its joint states hold every joint that moves, of which the graph gets those it commands;
and it does not say what it has executed. All else passes between the bridge and the graph directly.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.assembly import profile
from tether.codec import convert, message, sensors
from tether.contracts import F64, TICK_NS, Command, ExecutedCommand, JointSample, SampleRef, Stream
from tether.errors import Fault, InvalidInputError, TetherError
from tether.lockstep import TickInputs
from tether.robot.model import reorder
from tether.robot.roles import COMMAND_JOINTS
from tether.world.unstamped import UnstampedTwist


class IsaacSimShim(StageNode):
    """See the module. Real time only: Isaac Sim goes at its own pace."""

    niceness = -3
    hearing_priority = 10

    def __init__(self) -> None:
        super().__init__("world")
        self._profile = self.param("profile", "ideal", "name or file of the profile, for the watchdog's time")

    def build(self) -> None:
        """Make inlets, outlets and the watchdog."""
        if self.mode is not Mode.REALTIME:
            raise InvalidInputError("Isaac Sim", [Fault("mode", self.mode.value, "realtime: it waits for nobody")])
        self._relay = UnstampedTwist(round(profile(self._profile).actuation.watchdog_s * 1e9))
        self._base = self.outlet(topics.BASE_TWIST)
        self._joints = self.outlet(topics.JOINT_STATES)
        self._executed = self.outlet(topics.EXECUTED)
        self.inlet(topics.ALL_JOINT_STATES, self._on_joint_states)
        self.inlet(topics.JOINT_COMMAND, self._on_joint_command)
        self.inlet(topics.CMD_VEL, self._on_cmd_vel)
        self._joint_command: Any = None
        self._applied: Command | None = None
        self._tick = 0
        self._sequence = 0

    def start_live(self) -> None:
        """Send the base its command every tick, whether a new one has come or not."""
        self.every(TICK_NS * 1e-9, self._send_base)

    def on_episode(self, start: Any) -> None:
        """An episode is the graph's affair."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Isaac Sim keeps its own time."""

    def _on_joint_states(self, msg: Any) -> None:
        sample = sensors.joint_sample_from(msg, self._sequence)
        self._sequence += 1
        position = _commanded(sample.names, sample.position, "position")
        velocity = _commanded(sample.names, sample.velocity, "velocity")
        self._joints.send(sensors.joint_state_message(JointSample(sample.ref, COMMAND_JOINTS, position, velocity)))

    def _on_joint_command(self, msg: Any) -> None:
        self._joint_command = msg

    def _on_cmd_vel(self, msg: Any) -> None:
        joints = self._joint_command
        if joints is None or not joints.name:
            return
        try:
            command = sensors.gated_command(joints, msg, self._tick)
            self._relay.feed(command.base_twist, time.monotonic_ns())
        except TetherError as error:
            self.complain(Stream.EXECUTED, "command_refused", str(error))
            return
        self._applied = command

    def _send_base(self) -> None:
        self.take_arrived(topics.JOINT_COMMAND, topics.CMD_VEL)
        twist, stopped = self._relay.at(time.monotonic_ns())
        vector = message("geometry_msgs/msg/Vector3")
        vx, vy, wz = twist.tolist()
        self._base.send(message("geometry_msgs/msg/Twist")(vector(vx, vy, 0.0), vector(0.0, 0.0, wz)))
        if self._applied is not None:
            ref = SampleRef(Stream.EXECUTED, self.now_ns(), self._tick)
            applied = replace(self._applied, tick=self._tick, base_twist=twist)
            self._executed.send(convert.executed_message(ExecutedCommand(ref, applied, stopped), 0))
        self._tick += 1


def _commanded(names: tuple[str, ...], values: F64, what: str) -> F64:
    """The values of the joints that are commanded, in their order; one that is missing is refused by name."""
    if values.shape != (len(names),):
        raise InvalidInputError("joint states", [Fault(what, f"{values.size} values", f"{len(names)}, one a name")])
    chosen = [i for i, name in enumerate(names) if name in COMMAND_JOINTS]
    return reorder([names[i] for i in chosen], values[chosen], COMMAND_JOINTS, f"joint states: {what}")


def main() -> None:
    """Entry point."""
    sys.exit(run([IsaacSimShim]))
