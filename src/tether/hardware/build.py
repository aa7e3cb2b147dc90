"""Puts the drivers of a robot together from its settings and its calibration."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

from tether.clock import Clock, SteadyClock
from tether.errors import Fault, InvalidInputError
from tether.hardware.calibration import ImuCalibration, RobotCalibration, load_calibration
from tether.hardware.camera import Camera, Source
from tether.hardware.i2c import device_of
from tether.hardware.imu import Chip, Imu
from tether.hardware.imu_mpu6050 import Mpu6050
from tether.hardware.notices import Notices
from tether.hardware.serial_port import SerialPort
from tether.hardware.servos import Servos
from tether.hardware.settings import CameraKind, CameraSettings, ImuKind, ImuSettings, RobotSettings
from tether.hardware.world import PhysicalWorld, ros_offset_ns
from tether.robot.model import RobotModel


def make_servos(
    settings: RobotSettings,
    calibration: RobotCalibration,
    robot: RobotModel,
    notices: Notices,
    clock: Clock,
    *,
    guarded: bool,
) -> Servos:
    """The servos, on a bus that is opened when they are first used.

    guarded: a process of its own stops the wheels where this one dies or is stuck; it goes by real time.
    """
    port, baud = settings.servos.port, settings.servos.baud
    return Servos(settings.servos, calibration, robot, notices, lambda: SerialPort(port, baud), clock, guarded=guarded)


def make_chip(settings: ImuSettings, clock: Clock) -> Chip:
    """The IMU's chip, not set up yet."""
    device = device_of(settings)
    if settings.kind is ImuKind.MPU6050:
        return Mpu6050(device, clock)
    from tether.hardware.imu_bno085 import Bno085

    return Bno085(device, clock)


def make_imu(settings: ImuSettings, calibration: ImuCalibration, notices: Notices, clock: Clock) -> Imu:
    """The IMU, not started yet."""
    return Imu(make_chip(settings, clock), settings, calibration, notices, clock)


def make_source(settings: CameraSettings) -> Source | None:
    """Where pictures come from, not opened yet; None where another node publishes them."""
    kind = settings.kind
    if kind is CameraKind.AUTO:
        kind = CameraKind.PICAMERA2 if importlib.util.find_spec("picamera2") else CameraKind.V4L2
    if kind is CameraKind.EXTERNAL:
        return None
    if kind is CameraKind.EMULATED:
        from tether.hardware.emulate.camera import SocketCamera

        return SocketCamera(settings.device)
    if kind is CameraKind.PICAMERA2:
        from tether.hardware.camera_picamera2 import Picamera2Camera

        return Picamera2Camera(settings)
    from tether.hardware.camera_v4l2 import V4l2Camera

    return V4l2Camera(settings)


def make_physical_world(settings: RobotSettings, robot: RobotModel, clock: Clock | None = None) -> PhysicalWorld:
    """The whole robot. Raises InvalidInputError for settings that do not fit each other; devices open later.

    clock: where the devices are emulated on a clock of their own, whose time then stands in the stamps; no thread reads
    them, `attend` does.
    """
    steady = clock or SteadyClock()
    calibration = load_calibration(settings.calibration)
    faults = []
    if calibration.robot != settings.name:
        faults.append(Fault("calibration: robot", repr(calibration.robot), repr(settings.name)))
    size, calibrated = (settings.camera.width, settings.camera.height), calibration.camera
    if size != (calibrated.width, calibrated.height):
        faults.append(
            Fault("camera: width, height", f"{size}", f"the calibrated {calibrated.width, calibrated.height}")
        )
    if faults:
        raise InvalidInputError(f"robot {settings.name}", faults, "each robot has a calibration of its own")
    notices = Notices()
    source = make_source(settings.camera)
    return PhysicalWorld(
        robot,
        make_servos(settings, calibration, robot, notices, steady, guarded=clock is None),
        make_imu(settings.imu, calibration.imu, notices, steady),
        None if source is None else Camera(source, settings.camera, notices, steady),
        calibration.camera,
        notices,
        round(settings.watchdog_ms * 1e6),
        steady,
        ros_offset_ns if clock is None else lambda: 0,
        threads=clock is None,
    )


def below(settings: RobotSettings, folder: Path) -> RobotSettings:
    """The same robot with the names of its devices below `folder`, where an emulator keeps them."""
    return dataclasses.replace(
        settings,
        servos=dataclasses.replace(settings.servos, port=folder / settings.servos.port),
        imu=dataclasses.replace(settings.imu, bus=str(folder / settings.imu.bus)),
        camera=dataclasses.replace(settings.camera, device=str(folder / settings.camera.device)),
    )
