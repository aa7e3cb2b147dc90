"""Hardware in the loop: emulated devices for the driver, with the MuJoCo world behind them and its judge.

It hears no command and gives no sensor over ROS: what passes are the bytes of a servo bus, an I2C bus and a camera.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import __version__, topics
from tether.assembly import policy_kit, robot, settings_hashes, skill_of_task
from tether.clock import SteadyClock
from tether.codec import convert, sensors
from tether.contracts import EpisodeResult, EpisodeSpec
from tether.errors import Fault, InvalidInputError
from tether.eval.journal import append_result
from tether.event_kinds import RUN_CONFIG
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.build import make_emulated_world
from tether.hardware.emulate.robot import EmulatedRobot
from tether.hardware.settings import load_robot_settings
from tether.lockstep import TickInputs
from tether.results import library_versions

TAKE_UP_S = 30.0
SETTLE_S = 0.5
"""After the servos were taken up, pictures and joint states reach everybody before the episode starts."""
STEP_S = 0.001


class EmulatorNode(StageNode):
    """See `tether.hardware.emulate`."""

    niceness = -5

    def __init__(self) -> None:
        super().__init__("emulator")
        self._policy = self.param("policy", "classic", "policy that will act")
        self._task = self.param("task", "pick", "name or file of the task")
        self._profile = self.param("profile", "real", "name or file of the profile")
        self._robot = self.param("robot", "emulated", "name or file of the robot, whose devices are emulated")
        self._devices = self.param("devices", "", "folder to put the devices into")
        self._episodes = self.param("episodes", 1, "number of episodes to run")
        self._seed = self.param("seed", 0, "seed of the first episode; the next ones count up")
        self._results = self.param("results", "", "file to which each episode's result is added as a line of JSON")

    def build(self) -> None:
        """Make the world and plug the devices in."""
        faults = []
        if self.mode is not Mode.REALTIME:
            faults.append(Fault("mode", self.mode.value, "realtime"))
        if not self._devices:
            faults.append(Fault("devices", "nothing", "a folder"))
        if self._episodes < 1 or self._seed < 0:
            faults.append(Fault("episodes, seed", f"{self._episodes}, {self._seed}", "at least 1 and 0"))
        if faults:
            raise InvalidInputError("emulator", faults)
        settings = load_robot_settings(self._robot)
        world = make_emulated_world(self._task, self._profile, pictures=policy_kit(self._policy).pictures)
        folder = Path(self._devices)
        self._emulated = EmulatedRobot(world, robot(), load_calibration(settings.calibration), folder, SteadyClock())
        self._undo.append(self._emulated.close)
        self._names = (world.task.name, world.profile.name)
        self._start = self.outlet(topics.EPISODE_START)
        self._end = self.outlet(topics.EPISODE_END)
        self.optional(self._end)
        self._episode = -1
        self._running = False
        self._slipped_ns = 0
        self._prepare()

    def start_live(self) -> None:
        """Run the world; the first episode begins once a driver has taken the servos up."""
        config = {
            "settings": settings_hashes(self._task, self._profile, self._policy),
            "mode": self.mode.value,
            "version": __version__,
            "versions": library_versions(),
        }
        text = f"{self._policy} on {self._task}, {self._profile}, emulated devices"
        self.event(sensors.Severity.INFO, RUN_CONFIG, text, config)
        self._waited_from_s = time.monotonic()
        self.every(STEP_S, self._turn)

    def on_episode(self, start: Any) -> None:
        """The emulator starts episodes itself."""

    def on_tick(self, inputs: TickInputs) -> None:
        """The emulated robot keeps its own time."""

    def _prepare(self) -> None:
        self._episode += 1
        self._running = False
        self._ready_s: float | None = None
        self._waited_from_s = time.monotonic()
        self._emulated.prepare(EpisodeSpec(*self._names, self._seed + self._episode))

    def _turn(self) -> None:
        if self.finished:
            return
        result = self._emulated.tick()
        if self._emulated.slipped_ns > self._slipped_ns:
            lost_s = (self._emulated.slipped_ns - self._slipped_ns) / 1e9
            self._slipped_ns = self._emulated.slipped_ns
            self.event(sensors.Severity.WARN, "realtime_slip", f"the emulator lost {lost_s:.2f} s of real time")
        if not self._running:
            self._start_when_ready()
        elif result is not None:
            self._finish_episode(result)

    def _start_when_ready(self) -> None:
        now_s = time.monotonic()
        if not self._emulated.taken_up():
            self._ready_s = None
            if now_s - self._waited_from_s > TAKE_UP_S:
                self.fail(f"no driver has taken the servos up within {TAKE_UP_S:g} s")
            return
        self._ready_s = self._ready_s or now_s
        if now_s - self._ready_s < SETTLE_S:
            return
        self._running = True
        self._emulated.start()
        spec = EpisodeSpec(self._task, self._profile, self._seed + self._episode)
        skill = skill_of_task(self._task)
        self._start.send(convert.episode_start_message(self._episode, time.time_ns(), spec, self._policy, False, skill))

    def _finish_episode(self, result: EpisodeResult) -> None:
        self._end.send(convert.episode_end_message(self._episode, time.time_ns(), result))
        if self._results:
            append_result(Path(self._results), result)
        if self._episode + 1 < self._episodes:
            self._prepare()
            return
        self._running = False
        self.event(sensors.Severity.INFO, "run_complete", f"{self._episodes} episodes")
        self.finish()


def main() -> None:
    """Entry point."""
    sys.exit(run([EmulatorNode]))
