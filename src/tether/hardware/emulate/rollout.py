"""Hardware in the loop without ROS and without hurry: pipeline, drivers and emulated devices on one clock.

Between driver and devices pass the same bytes as in real time; only the waiting is left out. So a busy machine runs the
same episodes as an idle one.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tether.assembly import make_pipeline, policy_kit, robot, skill_of_task
from tether.clock import ManualClock
from tether.contracts import TICK_NS, Command, EpisodeResult, EpisodeSpec, TickDelivery
from tether.errors import DeadlineError, InvalidInputError
from tether.hardware.build import below, make_physical_world
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.build import make_emulated_world
from tether.hardware.emulate.robot import EmulatedRobot
from tether.hardware.notices import Notice
from tether.hardware.settings import load_robot_settings
from tether.safety.stage import for_world

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


class HilRollout:
    """Episodes of one policy through drivers and emulated devices. Use as a context manager."""

    def __init__(self, policy: str, task_name: str, profile_name: str, robot_name: str = "emulated") -> None:
        self._task = task_name
        self._folder = tempfile.TemporaryDirectory(prefix="tether-hil-")
        self._clock = ManualClock(START_NS)
        folder = Path(self._folder.name)
        settings = below(load_robot_settings(robot_name), folder)
        # Replies are waited for in real time, and only on a busy machine for long; no servo here is silent for good.
        servos = dataclasses.replace(settings.servos, reply_margin_ms=_REPLY_MS)
        settings = dataclasses.replace(settings, servos=servos)
        simulated = make_emulated_world(task_name, profile_name, pictures=policy_kit(policy).pictures)
        self._names = (simulated.task.name, simulated.profile.name)
        calibration = load_calibration(settings.calibration)
        self.emulated = EmulatedRobot(simulated, robot(), calibration, folder, self._clock)
        self.world = make_physical_world(settings, robot(), self._clock)
        self._pipeline = make_pipeline(policy, profile_name)
        self.notices: list[Notice] = []
        self.refused = 0
        self.world.attend(0)
        _wait(lambda: self.emulated.camera.connected)

    def __enter__(self) -> HilRollout:
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.close()
        self.emulated.close()
        self._folder.cleanup()

    def episode(self, seed: int) -> EpisodeResult:
        """Run one episode: the bus goes away and comes back, the driver takes the servos up, the policy acts."""
        spec = EpisodeSpec(*self._names, seed)
        self.emulated.prepare(spec)
        self._take_up(spec)
        self.emulated.start()
        delivery, result = self.world.reset(spec), None
        self._pipeline.reset(skill_of_task(self._task), seed)
        while result is None:
            trace = self._pipeline.tick(delivery)
            delivery, result = self._tick(for_world(trace.gated))
        return result

    def _take_up(self, spec: EpisodeSpec) -> None:
        self.world.reset(spec)
        settled = 0
        for _ in range(_TAKE_UP_TICKS):
            self._tick(None)
            settled = settled + 1 if self.emulated.taken_up() and self.world.servos.ready else 0
            if settled >= _SETTLE_TICKS:
                return
        missing = [notice.text for notice in self.notices[-3:]]
        raise DeadlineError("servos taken up by the driver", _TAKE_UP_TICKS * TICK_NS * 1e-9, missing)

    def _tick(self, command: Command | None) -> tuple[TickDelivery, EpisodeResult | None]:
        """One tick of the world with the goals in the registers, then one of the driver; both on the same clock."""
        begin_ns = self._clock.now_ns()
        result = self.emulated.tick()
        for moment_ns in _POLLS_NS:
            self._clock.set_ns(begin_ns + moment_ns)
            self.emulated.let_out()
            self.world.attend(self.emulated.shown)
        try:
            delivery = self.world.step(command)
        except InvalidInputError:
            self.refused += 1
            delivery = self.world.step(None)
        self.notices += self.world.notices.take()
        self._clock.set_ns(begin_ns + TICK_NS)
        return delivery, result
