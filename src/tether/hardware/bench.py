"""`tether bench bus`: nine servos written and read at the pace of 1 Mbaud, and what is missing of an IMU's 200 Hz.

The devices are emulated in a process of their own; bytes go through the kernel's terminal and socket layers.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import tempfile
import time
from itertools import pairwise
from multiprocessing.synchronize import Event
from pathlib import Path

from tether.arguments import positive
from tether.assembly import robot
from tether.bench.figures import Benchmark, Metric
from tether.clock import SteadyClock
from tether.errors import DeadlineError
from tether.hardware.build import below, make_imu, make_servos
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.i2c import I2cServer
from tether.hardware.emulate.mpu6050 import EmulatedMpu6050
from tether.hardware.emulate.servos import EmulatedServo, ServoBusEmulator
from tether.hardware.notices import Notices
from tether.hardware.settings import RobotSettings, load_robot_settings
from tether.processes import die_with_parent
from tether.robot.roles import COMMAND_JOINTS

_ROBOT = "emulated"
_PERIOD_S = 0.005
_START_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--cycles", type=positive, default=500, help="cycles of the servo bus (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="time the IMU is read for (default %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Cycles one after the other; then the IMU by its thread, its samples counted against what the chip took."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as name:
        folder, ready, ended = Path(name), context.Event(), context.Event()
        devices = context.Process(target=_devices, args=(folder, ready, ended), daemon=True)
        devices.start()
        try:
            if not ready.wait(_START_S):
                raise DeadlineError("emulated devices", _START_S)
            settings = below(load_robot_settings(_ROBOT), folder)
            metrics = _bus(settings, arguments.cycles) | _imu(settings, arguments.seconds)
        finally:
            ended.set()
            devices.join(_START_S)
    note = "emulated devices: replies leave when 1 Mbaud would have let them; no USB adapter is in the way"
    return Benchmark("bus", metrics, {}, (note,))


def _bus(settings: RobotSettings, cycles: int) -> dict[str, Metric]:
    notices, calibration = Notices(), load_calibration(settings.calibration)
    servos = make_servos(settings, calibration, robot(), notices, SteadyClock(), guarded=True)
    position = [0.0] * len(COMMAND_JOINTS)
    times, whole = [], 0
    servos.cycle(None, [0.0] * 3)
    for i in range(cycles):
        begin_s = time.perf_counter()
        whole += servos.cycle(position, [0.1 * (i % 2), 0.0, 0.0]) is not None
        times.append(time.perf_counter() - begin_s)
    servos.close()
    return {
        "cycle": Metric.of([1e3 * value for value in times], "ms"),
        "cycles a second": Metric.of([cycles / sum(times)], "Hz"),
        "cycles with all joints": Metric.of([100.0 * whole / cycles], "%"),
    }


def _imu(settings: RobotSettings, seconds: float) -> dict[str, Metric]:
    calibration = load_calibration(settings.calibration)
    imu = make_imu(dataclasses.replace(settings.imu), calibration.imu, Notices(), SteadyClock())
    imu.start()
    end_s, samples = time.monotonic() + seconds, []
    while time.monotonic() < end_s:
        time.sleep(0.01)
        samples += imu.take()
    imu.close()
    stamps = [sample.stamp_ns for sample in samples]
    if len(stamps) < 2:
        raise DeadlineError("samples of the IMU", seconds)
    gaps_ms = [(b - a) * 1e-6 for a, b in pairwise(stamps)]
    expected = (stamps[-1] - stamps[0]) * 1e-9 / _PERIOD_S
    missing = sum(gap > 1.5e3 * _PERIOD_S for gap in gaps_ms)
    return {
        "IMU spacing": Metric.of(gaps_ms, "ms"),
        "IMU rate": Metric.of([len(gaps_ms) / expected / _PERIOD_S], "Hz"),
        "IMU gaps": Metric.of([100.0 * missing / len(gaps_ms)], "%"),
    }


def _devices(folder: Path, ready: Event, ended: Event) -> None:
    """The other process: servos that answer, and a chip that takes a sample every 5 ms."""
    die_with_parent()
    settings = load_robot_settings(_ROBOT)
    calibration = load_calibration(settings.calibration)
    servos = [EmulatedServo(servo.id, servo.zero_step) for servo in calibration.servos.values()]
    chip = EmulatedMpu6050()
    server = I2cServer(folder / settings.imu.bus, {settings.imu.address: chip})
    with ServoBusEmulator(folder / settings.servos.port, servos):
        ready.set()
        next_s = time.monotonic()
        while not ended.is_set():
            next_s += _PERIOD_S
            time.sleep(max(0.0, next_s - time.monotonic()))
            chip.push([0.0, 0.0, 0.0], [0.0, 0.0, 9.81])
    server.close()
