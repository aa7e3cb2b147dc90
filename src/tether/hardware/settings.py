"""What a robot consists of: config/robot/*.yaml, read strictly."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path


class AtEnd(str, Enum):
    """What the arm's servos do when the driver ends. The wheels always stop and let go."""

    HOLD = "hold"
    RELEASE = "release"


class ImuKind(str, Enum):
    """Which IMU is fitted."""

    MPU6050 = "mpu6050"
    BNO085 = "bno085"


class CameraKind(str, Enum):
    """Where pictures come from."""

    AUTO = "auto"
    """picamera2 where it is installed, else V4L2."""
    PICAMERA2 = "picamera2"
    V4L2 = "v4l2"
    EXTERNAL = "external"
    """Another node publishes them (camera_ros, usb_cam)."""
    EMULATED = "emulated"


class I2cKind(str, Enum):
    """What speaks I2C for us."""

    SMBUS = "smbus2"
    EMULATED = "emulated"


@dataclass(frozen=True)
class ServoSettings:
    """The servo bus and how its servos are judged."""

    port: Path
    at_end: AtEnd
    baud: int = bounded(57_600, 1_000_000, unit="baud")
    reply_margin_ms: float = bounded(0.5, 50.0, unit="ms", doc="what replies may take on top of their time on the wire")
    torque_limit_share: float = bounded(0.05, 1.0, doc="of the stall torque, arm and gripper")
    outside_max_rad: float = bounded(
        0.01, 1.0, unit="rad", doc="a reading farther beyond the joint's limits is refused"
    )
    jump_max_rad: float = bounded(0.01, 1.0, unit="rad", doc="on top of what the servo's speed allows since the last")
    speed_share_max: float = bounded(1.0, 5.0, doc="of the joint's speed limit; faster readings are refused as jumps")
    refused_max: int = bounded(1, 1000, unit="cycles", doc="a servo refused for longer is isolated")
    missing_max: int = bounded(
        1, 1000, unit="cycles", doc="a servo silent for longer is asked for once in a while only"
    )
    retry_min_s: float = bounded(0.05, 10.0, unit="s", doc="pause before a lost bus or servo is tried again, at first")
    retry_max_s: float = bounded(0.05, 60.0, unit="s", doc="the pause doubles up to this")
    guard_ms: float = bounded(
        100.0, 5000.0, unit="ms", default=500.0, doc="a driver stuck for longer has its wheels stopped by their guard"
    )

    def __post_init__(self) -> None:
        if self.retry_min_s > self.retry_max_s:
            fault = Fault("retry_min_s", f"{self.retry_min_s:g}", f"at most retry_max_s = {self.retry_max_s:g}")
            raise InvalidInputError("servos", [fault])


@dataclass(frozen=True)
class ImuSettings:
    """The IMU: chip, bus, and how it is mounted."""

    kind: ImuKind
    i2c: I2cKind
    bus: str = bounded(doc="number of the bus (1: /dev/i2c-1); emulated: path of the socket")
    address: int = bounded(0x08, 0x77, doc="104 (0x68) for an MPU-6050, 74 (0x4A) for a BNO085")
    axes: tuple[str, str, str] = bounded(doc="the chip's axis along x, y, z of imu_link: x, y, z, -x, -y or -z")
    poll_ms: float = bounded(1.0, 20.0, unit="ms", doc="how often the FIFO is emptied")
    stale_ms: float = bounded(10.0, 1000.0, unit="ms", doc="without a new sample for longer, the chip is set up anew")
    retry_min_s: float = bounded(0.01, 10.0, unit="s")
    retry_max_s: float = bounded(0.01, 60.0, unit="s")

    def __post_init__(self) -> None:
        if sorted(axis.removeprefix("-") for axis in self.axes) != ["x", "y", "z"]:
            raise InvalidInputError(
                "imu", [Fault("axes", f"{list(self.axes)}", "each of x, y, z once, with or without -")]
            )


@dataclass(frozen=True)
class CameraSettings:
    """The camera."""

    kind: CameraKind
    device: str = bounded(doc="V4L2: /dev/videoN; picamera2: its number; emulated: path of the socket")
    width: int = bounded(32, 1920, unit="px")
    height: int = bounded(24, 1080, unit="px")
    rate_hz: float = bounded(1.0, 100.0, unit="Hz")
    stall_ms: float = bounded(50.0, 5000.0, unit="ms", doc="without a picture for longer, the camera is restarted")
    retry_min_s: float = bounded(0.05, 10.0, unit="s")
    retry_max_s: float = bounded(0.05, 60.0, unit="s")
    exposure_us: int | None = bounded(
        50, 1_000_000, unit="µs", default=None, doc="locked; left out: the camera's choice"
    )


@dataclass(frozen=True)
class RobotSettings:
    """One robot. calibration: beside this file, or an absolute path."""

    name: str
    doc: str
    calibration: Path
    servos: ServoSettings
    imu: ImuSettings
    camera: CameraSettings
    watchdog_ms: float = bounded(20.0, 1000.0, unit="ms", doc="without a gated command for longer, the robot stops")

    @property
    def is_emulated(self) -> bool:
        """Whether its devices are an emulator's, whose names stand below a folder."""
        return self.imu.i2c is I2cKind.EMULATED and self.camera.kind is CameraKind.EMULATED


def load_robot_settings(name: str) -> RobotSettings:
    """Settings by name (a file of config/robot) or by path; the calibration's path is made whole."""
    path = Path(name)
    if not name.endswith((".yaml", ".yml")):
        known = sorted(found.stem for found in resource_path("config", "robot").glob("*.yaml") if "." not in found.stem)
        if name not in known:
            fault = Fault("robot", repr(name), f"one of {', '.join(known)}, or a YAML file's path")
            raise InvalidInputError("robot", [fault])
        path = resource_path("config", f"robot/{name}.yaml")
    settings = load(path, RobotSettings)
    whole = path.parent / settings.calibration
    return dataclasses.replace(settings, calibration=whole)
