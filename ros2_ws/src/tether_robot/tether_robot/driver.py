"""The physical robot on the topics of every world: sensors out, gated commands in, each tick of 10 ms.

What devices have to say becomes events; the health of the servos goes out as diagnostics.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.assembly import robot
from tether.codec import convert, sensors
from tether.codec.diagnostics import diagnostics_message
from tether.codec.gated import GatedHalves
from tether.contracts import TICK_NS, Command, EpisodeSpec, ImageSample, ImuSample, JointSample, Sample, Stream
from tether.errors import Fault, InvalidInputError, TetherError
from tether.hardware.build import below, make_physical_world
from tether.hardware.health import servo_diagnostics
from tether.hardware.settings import load_robot_settings
from tether.lockstep import TickInputs

HEALTH_S = 0.2


class DriverNode(StageNode):
    """See `tether.hardware`."""

    niceness = -5
    realtime_priority = 20

    def __init__(self) -> None:
        super().__init__("driver")
        self._robot = self.param("robot", "tether_rover", "name (of config/robot) or file of the robot")
        self._profile = self.param("profile", "real", "name or file of the profile that describes this robot")
        self._task = self.param("task", "pick", "name or file of the task")
        self._devices = self.param("devices", "", "not empty: folder that the robot's devices are in (emulator)")

    def build(self) -> None:
        """Read the robot's settings and calibration; devices are opened once the node is active."""
        if self.mode is not Mode.REALTIME:
            raise InvalidInputError("driver", [Fault("mode", self.mode.value, "realtime: a robot waits for nobody")])
        settings = load_robot_settings(self._robot)
        if self._devices:
            settings = below(settings, Path(self._devices))
        self._world = make_physical_world(settings, robot())
        self._undo.append(self._world.close)
        self._send = {
            ImuSample: self.outlet(topics.IMU),
            JointSample: self.outlet(topics.JOINT_STATES),
        }
        if self._world.has_camera:
            self._send[ImageSample] = self.outlet(topics.IMAGE)
            self._info = self.outlet(topics.CAMERA_INFO)
        self._executed = self.outlet(topics.EXECUTED)
        self._health = self.outlet(topics.DIAGNOSTICS)
        self.optional(self._health)
        self.inlet(topics.JOINT_COMMAND, self._on_joint_command)
        self.inlet(topics.CMD_VEL, self._on_cmd_vel)
        self.inlet(topics.EPISODE_START, self._begin_episode, fed=False)
        self._commands = GatedHalves()
        self._episode = 0

    def start_live(self) -> None:
        """Start the devices."""
        self._world.reset(EpisodeSpec(self._task, self._profile, seed=0))
        self.every(TICK_NS * 1e-9, self._tick)
        self.every(HEALTH_S, self._tell_health)

    def on_episode(self, start: Any) -> None:
        """Somebody says that an episode starts: what was commanded before belongs to the last one."""
        self._episode = int(start.episode)
        self._commands.clear()

    def on_tick(self, inputs: TickInputs) -> None:
        """The robot keeps its own time."""

    def _tick(self) -> None:
        self.take_arrived(topics.JOINT_COMMAND, topics.CMD_VEL)
        try:
            delivery = self._world.step(self._take_command())
        except InvalidInputError as error:
            self.complain(Stream.EXECUTED, "command_refused", str(error))
            delivery = self._world.step(None)
        for sample in delivery.samples:
            self._publish(sample)
        if delivery.executed is not None:
            self._executed.send(convert.executed_message(delivery.executed, self._episode))
        for notice in self._world.notices.take():
            self.event(int(notice.level), notice.kind, notice.text)

    def _publish(self, sample: Sample) -> None:
        if isinstance(sample, ImuSample):
            self._send[ImuSample].send(sensors.imu_message(sample))
        elif isinstance(sample, JointSample):
            self._send[JointSample].send(sensors.joint_state_message(sample))
        elif isinstance(sample, ImageSample):
            self._info.send(sensors.camera_info_message(sample.camera, sample.ref.stamp_ns))
            self._send[ImageSample].send(sensors.image_message(sample))

    def _tell_health(self) -> None:
        self._health.send(diagnostics_message(time.time_ns(), servo_diagnostics(self._world.servos)))

    def _on_joint_command(self, msg: Any) -> None:
        self._commands.put_joints(msg)

    def _on_cmd_vel(self, msg: Any) -> None:
        self._commands.put_twist(msg)

    def _take_command(self) -> Command | None:
        """The newest command, once; None where none has come or the gate does not know the joints yet."""
        pair = self._commands.take()
        if pair is None:
            return None
        joints, twist = pair
        try:
            return sensors.gated_command(joints, twist, self._world.ticks) if joints.name else None
        except TetherError as error:
            self.complain(Stream.EXECUTED, "command_refused", str(error))
            return None


def main() -> None:
    """Entry point."""
    sys.exit(run([DriverNode]))
