"""What the drivers' tests share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tether.assembly import robot
from tether.clock import ManualClock
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.servos import EmulatedServo, ServoBusEmulator
from tether.hardware.notices import Notices
from tether.hardware.serial_port import SerialPort
from tether.hardware.servos import ServoReading, Servos
from tether.hardware.settings import load_robot_settings

TICK_NS = 10_000_000


@dataclass
class Rig:
    """Servos with their driver on a clock moved by hand; replies are waited for as long as a busy machine may need."""

    servos: Servos
    emulator: ServoBusEmulator
    notices: Notices
    clock: ManualClock

    def cycle(
        self, position: list[float] | None = None, wheels: tuple[float, ...] = (0.0, 0.0, 0.0)
    ) -> ServoReading | None:
        """One cycle, 10 ms after the last."""
        self.clock.set_ns(self.clock.now_ns() + TICK_NS)
        return self.servos.cycle(position, wheels)

    def be_impatient(self, margin_s: float = 1.0) -> None:
        """Before the first cycle: replies that never come are waited for no longer than this."""
        self.servos._settings = dataclasses.replace(self.servos._settings, reply_margin_ms=1e3 * margin_s)

    def until_ready(self) -> None:
        """Cycles until every servo takes goals; as many as the pauses between tries add up to, and more."""
        for _ in range(2000):
            self.cycle()
            if self.servos.ready:
                return
        raise AssertionError(f"not ready: {self.servos.states}, {self.notices.take()}")

    def kinds(self) -> list[str]:
        """Kinds of what was said since the last time."""
        return [notice.kind for notice in self.notices.take()]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Nine servos at the joints' zeros, the gripper open."""
    settings = load_robot_settings("emulated")
    calibration = load_calibration(settings.calibration)
    emulated = [EmulatedServo(servo.id, servo.zero_step) for servo in calibration.servos.values()]
    clock, notices = ManualClock(1_000_000_000), Notices()
    path = tmp_path / "bus"
    bus = dataclasses.replace(settings.servos, reply_margin_ms=30_000.0)
    with ServoBusEmulator(path, emulated) as emulator:
        servos = Servos(bus, calibration, robot(), notices, lambda: SerialPort(path, 1_000_000), clock)
        yield Rig(servos, emulator, notices, clock)
        servos.close()
