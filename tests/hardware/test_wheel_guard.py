"""The wheels' guard against real processes: a driver that is killed, one that is stuck, one that ends in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.servos import EmulatedServo, ServoBusEmulator
from tether.hardware.feetech import Register
from tether.hardware.settings import load_robot_settings
from tether.robot.roles import WHEEL_JOINTS

PATIENCE_S = 60.0
DRIVER = """
import dataclasses, sys, time
from pathlib import Path
from tether.assembly import robot
from tether.clock import SteadyClock
from tether.hardware.build import make_servos
from tether.hardware.calibration import load_calibration
from tether.hardware.notices import Notices
from tether.hardware.settings import load_robot_settings

settings = load_robot_settings("emulated")
bus = dataclasses.replace(settings.servos, port=Path(sys.argv[1]), reply_margin_ms=5000.0)
settings, calibration = dataclasses.replace(settings, servos=bus), load_calibration(settings.calibration)
servos = make_servos(settings, calibration, robot(), Notices(), SteadyClock(), guarded=True)
position = guard = None
while sys.stdin not in __import__("select").select([sys.stdin], [], [], 0.01)[0]:
    reading = servos.cycle(position, (1.0, -1.0, 0.5))
    if position is None and reading is not None:
        position = reading.position.tolist()
    if servos._guard is not None and servos._guard.pid != guard:
        guard = servos._guard.pid
        print(guard, flush=True)
servos.close()
print("closed", flush=True)
"""


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[ServoBusEmulator]:
    calibration = load_calibration(load_robot_settings("emulated").calibration)
    servos = [EmulatedServo(servo.id, servo.zero_step) for servo in calibration.servos.values()]
    with ServoBusEmulator(tmp_path / "bus", servos) as emulated:
        yield emulated


@pytest.fixture
def driver(emulator: ServoBusEmulator) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own whose wheels turn."""
    words = [sys.executable, "-c", DRIVER, str(emulator.path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        wait_for("the wheels to turn", lambda: all(wheels(emulator)))
        yield process
    finally:
        process.kill()
        process.communicate()


def wheels(emulator: ServoBusEmulator) -> list[int]:
    calibration = load_calibration(load_robot_settings("emulated").calibration)
    with emulator.lock:
        return [emulator.servos[calibration.servos[name].id].get(Register.GOAL_VELOCITY) for name in WHEEL_JOINTS]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def guard_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_the_wheels_of_a_driver_that_was_killed_are_stopped_and_the_arm_holds(emulator, driver):
    guard = guard_of(driver)
    driver.kill()
    wait_for("the wheels to stop", lambda: wheels(emulator) == [0, 0, 0])
    wait_for("the guard to end", lambda: gone(guard))
    assert all(emulator.servos[i].torque for i in range(1, 10))
    assert emulator.servos[1].get(Register.GOAL_POSITION) == 2048


def test_the_wheels_of_a_stuck_driver_stand_until_it_goes_on(emulator, driver):
    guard_of(driver)
    os.kill(driver.pid, signal.SIGSTOP)
    wait_for("the wheels to stop", lambda: wheels(emulator) == [0, 0, 0])
    os.kill(driver.pid, signal.SIGCONT)
    wait_for("the wheels to turn again", lambda: all(wheels(emulator)))


def test_a_guard_that_was_killed_is_started_again(emulator, driver):
    os.kill(guard_of(driver), signal.SIGKILL)
    guard_of(driver)
    driver.kill()
    wait_for("the wheels to stop", lambda: wheels(emulator) == [0, 0, 0])


def test_a_driver_that_ends_in_order_takes_its_guard_with_it(emulator, driver):
    guard = guard_of(driver)
    said, _ = driver.communicate("end\n", timeout=PATIENCE_S)
    assert "closed" in said
    assert gone(guard)
    assert wheels(emulator) == [0, 0, 0]
    assert [emulator.servos[i].torque for i in range(1, 10)] == [True] * 6 + [False] * 3
