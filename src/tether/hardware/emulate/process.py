"""Emulated devices with the MuJoCo world behind them in a process of their own, in real time, and their faults."""

from __future__ import annotations

import enum
import errno
import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tether.assembly import robot
from tether.clock import SteadyClock
from tether.contracts import EpisodeSpec
from tether.errors import DeadlineError
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.build import make_emulated_world
from tether.hardware.emulate.robot import EmulatedRobot
from tether.hardware.settings import load_robot_settings

_START_S = 60.0
_ANSWER_S = 20.0
_NAP_S = 0.0005
_CORRUPT_EVERY = 3
_END = "end of the process"


class DeviceFault(str, enum.Enum):
    """What can happen to the devices."""

    OVERLOAD = "overload"
    """A servo reports an overload and lets go; the end of it is its power being cut and given back."""
    CHECKSUM = "checksum"
    """Every third reply on the servo bus is damaged."""
    SILENCE = "silence"
    """A servo does not answer."""
    UNPLUG = "unplug"
    """The bus adapter's plug is pulled and put in again."""
    POWER = "power"
    """All servos lose their power, and the adapter with them; the robot stands where episodes start afterwards."""
    ERRNO_121 = "errno_121"
    """The IMU does not acknowledge."""
    STUCK_I2C = "stuck_i2c"
    """Something holds the I2C bus low: every transfer times out."""
    IMU_RESET = "imu_reset"
    """The IMU loses its power for a moment, and its settings with it."""
    CAMERA_STALL = "camera_stall"
    """The camera gives no pictures."""


class DeviceProcess:
    """Runs an `EmulatedRobot` with devices in `folder` until it is closed. Use as a context manager."""

    def __init__(self, folder: Path, robot_name: str, task: str, profile: str, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, folder, robot_name, task, profile, seed), daemon=True, name="devices"
        )
        self._process.start()
        theirs.close()
        self._answer(_START_S)

    def __enter__(self) -> DeviceProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def begin(self, fault: DeviceFault, servo_id: int) -> None:
        """Let it happen; servo_id: to which servo, where it concerns one."""
        self._ask((fault.value, servo_id, True))

    def end(self, fault: DeviceFault, servo_id: int) -> None:
        """Let it be over."""
        self._ask((fault.value, servo_id, False))

    def slipped_s(self) -> float:
        """Real time that the world could not keep up with, since the start."""
        return self._ask(("slipped", 0, True))

    def close(self) -> None:
        """The devices are gone."""
        if self._process.is_alive():
            self._pipe.send(_END)
            self._process.join(_ANSWER_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._pipe.close()

    def _ask(self, request: tuple[str, int, bool]) -> float:
        self._pipe.send(request)
        return self._answer(_ANSWER_S)

    def _answer(self, seconds: float) -> float:
        if not self._pipe.poll(seconds):
            raise DeadlineError("the process of the emulated devices", seconds)
        return float(self._pipe.recv())


def _run(pipe: Connection, folder: Path, robot_name: str, task: str, profile: str, seed: int) -> None:
    settings = load_robot_settings(robot_name)
    world = make_emulated_world(task, profile, pictures=True)
    spec = EpisodeSpec(world.task.name, world.profile.name, seed)
    emulated = EmulatedRobot(world, robot(), load_calibration(settings.calibration), folder, SteadyClock())
    emulated.prepare(spec)
    pipe.send(0.0)
    while True:
        emulated.tick()
        while pipe.poll():
            request = pipe.recv()
            if request == _END:
                emulated.close()
                return
            pipe.send(_obey(emulated, spec, *request))
        time.sleep(min(max(emulated.next_due_s() - time.monotonic(), _NAP_S), 5 * _NAP_S))


def _obey(emulated: EmulatedRobot, spec: EpisodeSpec, what: str, servo_id: int, begins: bool) -> float:
    if what == "slipped":
        return emulated.slipped_ns * 1e-9
    fault, bus = DeviceFault(what), emulated.bus
    if fault is DeviceFault.UNPLUG:
        (bus.unplug if begins else bus.plug)()
    elif fault is DeviceFault.POWER:
        if begins:
            bus.unplug()
        else:
            emulated.prepare(spec)
    elif fault is DeviceFault.IMU_RESET:
        if begins:
            emulated.imu.power_cycle()
    elif fault is DeviceFault.CAMERA_STALL:
        emulated.camera.stalled = begins
    elif fault in (DeviceFault.ERRNO_121, DeviceFault.STUCK_I2C):
        code = errno.EREMOTEIO if fault is DeviceFault.ERRNO_121 else errno.ETIMEDOUT
        emulated.imu.failing = code if begins else None
    else:
        _servo_fault(emulated, fault, servo_id, begins)
    return 0.0


def _servo_fault(emulated: EmulatedRobot, fault: DeviceFault, servo_id: int, begins: bool) -> None:
    bus = emulated.bus
    with bus.lock:
        if fault is DeviceFault.OVERLOAD:
            servo = bus.servos[servo_id]
            (servo.overload if begins else servo.power_cycle)()
        elif fault is DeviceFault.CHECKSUM:
            bus.faults.corrupt_every = _CORRUPT_EVERY if begins else 0
        elif begins:
            bus.faults.silent.add(servo_id)
        else:
            bus.faults.silent.discard(servo_id)
