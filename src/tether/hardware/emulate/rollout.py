"""Hardware in the loop without ROS and without hurry: pipeline, drivers and emulated devices on one clock.

Between driver and devices pass the same bytes as in real time; only the waiting is left out. So a busy machine runs the
same episodes as an idle one. `HilBench` is the robot alone, as calibration has it; `HilRollout` lets a policy act.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tether.assembly import make_pipeline, policy_kit, robot, skill_of_task
from tether.clock import ManualClock
from tether.contracts import TICK_NS, Command, EpisodeResult, EpisodeSpec, TickDelivery
from tether.errors import DeadlineError, InvalidInputError
from tether.hardware.build import below, make_physical_world
from tether.hardware.calibration import RobotCalibration, load_calibration, write_calibration
from tether.hardware.emulate.build import make_emulated_world
from tether.hardware.emulate.robot import EmulatedRobot
from tether.hardware.notices import Notice
from tether.hardware.settings import load_robot_settings
from tether.safety.stage import for_world

T = TypeVar("T", bound="HilBench")
START_NS = 1_000_000_000
_POLLS_NS = (1_000_000, 5_000_000, 9_000_000)
"""Moments of a tick at which the IMU is read; at the last, the driver writes and reads its servos."""
_TAKE_UP_TICKS = 300
_REPLY_MS = 30_000.0
_SETTLE_TICKS = 20


def _wait(until: Callable[[], bool], deadline_s: float = 10.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not until():
        if time.monotonic() > end_s:
            raise DeadlineError("camera opened by the driver", deadline_s)
        time.sleep(0.001)


class HilBench:
    """Drivers over emulated devices, a tick of 10 ms at a time. Use as a context manager."""

    def __init__(
        self,
        task_name: str,
        profile_name: str,
        *,
        robot_name: str = "emulated",
        pictures: bool = True,
        believed: RobotCalibration | None = None,
    ) -> None:
        """believed: what the drivers take the robot for, where that is not what the emulator makes of it."""
        self._folder = tempfile.TemporaryDirectory(prefix="tether-hil-")
        self.clock = ManualClock(START_NS)
        folder = Path(self._folder.name)
        settings = below(load_robot_settings(robot_name), folder)
        calibration = load_calibration(settings.calibration)
        if believed is not None:
            write_calibration(folder / "believed.yaml", believed)
            settings = dataclasses.replace(settings, calibration=folder / "believed.yaml")
        # Replies are waited for in real time, and only on a busy machine for long; no servo here is silent for good.
        servos = dataclasses.replace(settings.servos, reply_margin_ms=_REPLY_MS)
        self.settings = dataclasses.replace(settings, servos=servos)
        self.simulated = make_emulated_world(task_name, profile_name, pictures=pictures)
        self._names = (self.simulated.task.name, self.simulated.profile.name)
        self.emulated = EmulatedRobot(self.simulated, robot(), calibration, folder, self.clock)
        self.world = make_physical_world(self.settings, robot(), self.clock)
        self.notices: list[Notice] = []
        self.refused = 0
        self.world.attend(0)
        _wait(lambda: self.emulated.camera.connected)

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.close()
        self.emulated.close()
        self._folder.cleanup()

    def prepare(self, seed: int) -> EpisodeSpec:
        """The robot stands where episodes start, its servos taken up: the bus went away and came back."""
        spec = EpisodeSpec(*self._names, seed)
        self.emulated.prepare(spec)
        self.take_up(spec)
        return spec

    def take_up(self, spec: EpisodeSpec) -> None:
        """Tick until the driver has taken every servo up and it has stayed so for a while."""
        self.world.reset(spec)
        settled = 0
        for _ in range(_TAKE_UP_TICKS):
            self.tick(None)
            settled = settled + 1 if self.emulated.taken_up() and self.world.servos.ready else 0
            if settled >= _SETTLE_TICKS:
                return
        missing = [notice.text for notice in self.notices[-3:]]
        raise DeadlineError("servos taken up by the driver", _TAKE_UP_TICKS * TICK_NS * 1e-9, missing)

    def tick(self, command: Command | None) -> tuple[TickDelivery, EpisodeResult | None]:
        """One tick of the world with the goals in the registers, then one of the driver; both on the same clock."""
        begin_ns = self.clock.now_ns()
        result = self.emulated.tick()
        for moment_ns in _POLLS_NS:
            self.clock.set_ns(begin_ns + moment_ns)
            self.emulated.let_out()
            self.world.attend(self.emulated.shown)
        try:
            delivery = self.world.step(command)
        except InvalidInputError:
            self.refused += 1
            delivery = self.world.step(None)
        self.notices += self.world.notices.take()
        self.clock.set_ns(begin_ns + TICK_NS)
        return delivery, result


class HilRollout(HilBench):
    """Episodes of one policy through drivers and emulated devices. Use as a context manager."""

    def __init__(self, policy: str, task_name: str, profile_name: str, robot_name: str = "emulated") -> None:
        self._task = task_name
        pictures = policy_kit(policy).pictures
        super().__init__(task_name, profile_name, robot_name=robot_name, pictures=pictures)
        self._pipeline = make_pipeline(policy, profile_name)

    def episode(self, seed: int) -> EpisodeResult:
        """Run one episode: the bus goes away and comes back, the driver takes the servos up, the policy acts."""
        spec = self.prepare(seed)
        self.emulated.start()
        delivery, result = self.world.reset(spec), None
        self._pipeline.reset(skill_of_task(self._task), seed)
        while result is None:
            trace = self._pipeline.tick(delivery)
            delivery, result = self.tick(for_world(trace.gated))
        return result
