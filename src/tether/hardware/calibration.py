"""What was measured on one robot: where its servos' zeros are, its IMU's bias, its camera's lens. With a hash.

A calibration belongs to one robot and to no other; a file that was changed by hand, or damaged, is refused, since the
arm would move to where it should not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tether.config import bounded, load, plain
from tether.contracts import F64
from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.hardware.feetech import STEPS_PER_TURN
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS

_STEPS_PER_RAD = STEPS_PER_TURN / (2.0 * math.pi)


@dataclass(frozen=True)
class ServoCalibration:
    """One servo as it is mounted. Joint position = direction · per_rad · (angle of its steps from zero_step)."""

    id: int = bounded(0, 253, doc="address on the bus")
    zero_step: int = bounded(0, STEPS_PER_TURN - 1, unit="steps", doc="reading where the joint is at 0")
    direction: int = bounded(-1, 1, doc="1, or -1 where it turns the joint backwards")
    per_rad: float = bounded(1e-4, 10.0, default=1.0, doc="joint's rad (m for a sliding joint) per rad of the servo")

    def __post_init__(self) -> None:
        if self.direction == 0:
            raise InvalidInputError("servo", [Fault("direction", "0", "1 or -1")])

    @property
    def units_per_step(self) -> float:
        """Joint's rad (m) per step, with its sign."""
        return self.direction * self.per_rad / _STEPS_PER_RAD

    def to_steps(self, position: float) -> int:
        """The step nearest to a joint position."""
        return self.zero_step + round(position / self.units_per_step)

    def to_position(self, steps: int) -> float:
        """The joint position at a step."""
        return (steps - self.zero_step) * self.units_per_step


@dataclass(frozen=True)
class ImuCalibration:
    """What the IMU says at rest beside the truth, in its mounted frame; subtracted from every sample."""

    gyro_bias_rad_s: tuple[float, float, float] = bounded(-1.0, 1.0, unit="rad/s", default=(0.0, 0.0, 0.0))
    accel_bias_m_s2: tuple[float, float, float] = bounded(-3.0, 3.0, unit="m/s^2", default=(0.0, 0.0, 0.0))


@dataclass(frozen=True)
class CameraCalibration:
    """Pinhole intrinsics at the size that the camera is run at. The lens is taken to be free of distortion."""

    width: int = bounded(32, 4096, unit="px")
    height: int = bounded(24, 4096, unit="px")
    fx: float = bounded(10.0, 10_000.0, unit="px")
    fy: float = bounded(10.0, 10_000.0, unit="px")
    cx: float = bounded(0.0, 4096.0, unit="px")
    cy: float = bounded(0.0, 4096.0, unit="px")


@dataclass(frozen=True)
class RobotCalibration:
    """Everything measured on one robot.

    measured: when and how. sha256: of all the rest; empty only before the file is written.
    """

    robot: str
    measured: str
    servos: dict[str, ServoCalibration]
    camera: CameraCalibration
    imu: ImuCalibration = field(default_factory=ImuCalibration)
    sha256: str = bounded(default="", doc="of the content; `tether calibrate` writes it")

    def __post_init__(self) -> None:
        faults = []
        expected = {*COMMAND_JOINTS, *WHEEL_JOINTS}
        if set(self.servos) != expected:
            found = f"missing {sorted(expected - set(self.servos))}, unknown {sorted(set(self.servos) - expected)}"
            faults.append(Fault("servos", found, "one for each joint of the robot"))
        ids = [servo.id for servo in self.servos.values()]
        if len(set(ids)) != len(ids):
            faults.append(Fault("servos", f"ids {sorted(ids)}", "each id once"))
        if faults:
            raise InvalidInputError("calibration", faults)

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = dataclasses.asdict(self)
        content.pop("sha256")
        return content


def load_calibration(path: Path) -> RobotCalibration:
    """Read a robot's calibration; raises InvalidInputError with every fault, a hash that does not fit among them."""
    calibration = load(path, RobotCalibration)
    if calibration.sha256 != calibration.digest:
        found = f"{calibration.sha256[:16] or 'nothing'}…, and content {calibration.digest[:16]}…"
        fault = Fault(f"{path}: sha256", found, "the hash of the content")
        raise InvalidInputError("calibration", [fault], "measure again with `tether calibrate`, or restore the file")
    return calibration


def write_calibration(path: Path, calibration: RobotCalibration) -> None:
    """Write a calibration with its hash, whole or not at all."""
    content: Mapping[str, Any] = {**calibration._content(), "sha256": calibration.digest}
    text = yaml.safe_dump(plain(content), sort_keys=False, width=120)
    with replaced(path, durable=True) as file:
        file.write(text.encode())


def with_bias(calibration: RobotCalibration, gyro_rad_s: F64, accel_m_s2: F64, measured: str) -> RobotCalibration:
    """The calibration with another bias of the IMU, (3,) each."""
    gyro, accel = (tuple(float(v) for v in bias) for bias in (gyro_rad_s, accel_m_s2))
    imu = ImuCalibration((gyro[0], gyro[1], gyro[2]), (accel[0], accel[1], accel[2]))
    return dataclasses.replace(calibration, imu=imu, measured=measured, sha256="")
