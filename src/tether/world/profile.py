"""Profiles: how far a world is from ideal. A YAML file read strictly into these dataclasses; any valid file works.

Latency is the time from a sample's acquisition to its delivery; jitter is the half-width of a uniform spread around
it. Every figure's source stands beside it in the YAML file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tether.config import bounded, load, plain
from tether.errors import Fault, InvalidInputError
from tether.files import replaced


def rising(record: Any, *names: str) -> list[Fault]:
    """Faults of those pairs of a record whose low is above their high. A pair that could not be read is left out."""
    pairs = {name: getattr(record, name) for name in names if hasattr(record, name)}
    return [Fault(name, f"{list(pair)}", "low ≤ high") for name, pair in pairs.items() if pair[0] > pair[1]]


@dataclass(frozen=True)
class Delay:
    """When samples of a sensor arrive, and whether they do."""

    latency_s: float = bounded(0.0, 2.0, unit="s")
    jitter_s: float = bounded(0.0, 1.0, unit="s", doc="half-width of a uniform spread")
    drop_probability: float = bounded(0.0, 0.95)

    def __post_init__(self) -> None:
        if self.jitter_s > self.latency_s:
            fault = Fault("jitter_s", f"{self.jitter_s:g}", f"at most latency_s = {self.latency_s:g}")
            raise InvalidInputError("delay", [fault], "a sample cannot arrive before it was taken")


@dataclass(frozen=True)
class CameraProfile:
    """The camera: pictures of width × height, vertical field of view, noise of one pixel in 8-bit counts."""

    delay: Delay
    width: int = bounded(32, 1920, unit="px")
    height: int = bounded(24, 1080, unit="px")
    fovy_rad: float = bounded(0.2, 2.4, unit="rad")
    rate_hz: float = bounded(1.0, 100.0, unit="Hz")
    pixel_noise: float = bounded(0.0, 64.0, unit="counts")

    @property
    def is_noiseless(self) -> bool:
        """Whether a scene at rest looks the same in every picture, as it does to no real camera."""
        return self.pixel_noise == 0.0


@dataclass(frozen=True)
class ImuProfile:
    """The IMU at 200 Hz. Noise per sample (one sigma), turn-on bias (one sigma), random walk of the bias."""

    delay: Delay
    gyro_noise_rad_s: float = bounded(0.0, 1.0, unit="rad/s")
    accel_noise_m_s2: float = bounded(0.0, 10.0, unit="m/s^2")
    gyro_bias_rad_s: float = bounded(0.0, 1.0, unit="rad/s")
    accel_bias_m_s2: float = bounded(0.0, 5.0, unit="m/s^2")
    gyro_walk_rad_s_sqrt_s: float = bounded(0.0, 0.1, unit="rad/s/sqrt(s)")
    accel_walk_m_s2_sqrt_s: float = bounded(0.0, 1.0, unit="m/s^2/sqrt(s)")

    @property
    def is_noiseless(self) -> bool:
        """Whether a resting IMU repeats itself, as no real one does."""
        return self.gyro_noise_rad_s == 0.0 or self.accel_noise_m_s2 == 0.0


@dataclass(frozen=True)
class JointProfile:
    """Joint encoders at 100 Hz. Noise of position and velocity, one sigma; the gripper's are in metres."""

    delay: Delay
    position_noise_rad: float = bounded(0.0, 0.1, unit="rad")
    velocity_noise_rad_s: float = bounded(0.0, 2.0, unit="rad/s")
    gripper_noise_m: float = bounded(0.0, 0.01, unit="m")


@dataclass(frozen=True)
class RewardProfile:
    """When a reward reaches the learner and the breaker."""

    delay: Delay


@dataclass(frozen=True)
class ActuationProfile:
    """Servo model behind the gate: dead time, then a first-order lag, then the velocity limit of the URDF."""

    dead_time_s: float = bounded(0.0, 0.3, unit="s")
    time_constant_s: float = bounded(0.0, 1.0, unit="s")
    base_dead_time_s: float = bounded(0.0, 0.3, unit="s")
    base_time_constant_s: float = bounded(0.0, 1.0, unit="s")
    base_acceleration_m_s2: float = bounded(0.05, 10.0, unit="m/s^2")
    watchdog_s: float = bounded(0.02, 1.0, unit="s", doc="the world stops by itself without commands for longer")


@dataclass(frozen=True)
class VariationProfile:
    """What the seed varies from episode to episode: factors (low, high) and half-widths of uniform spreads."""

    friction_scale: tuple[float, float] = bounded(0.2, 3.0)
    mass_scale: tuple[float, float] = bounded(0.2, 5.0)
    light_scale: tuple[float, float] = bounded(0.1, 3.0)
    lag_scale: tuple[float, float] = bounded(0.5, 2.0, doc="on dead time and time constant of the servos")
    camera_position_m: float = bounded(0.0, 0.05, unit="m")
    camera_rotation_rad: float = bounded(0.0, 0.2, unit="rad")

    def __post_init__(self) -> None:
        faults = rising(self, "friction_scale", "mass_scale", "light_scale", "lag_scale")
        if faults:
            raise InvalidInputError("variation", faults)


@dataclass(frozen=True)
class Profile:
    """One complete profile."""

    name: str
    doc: str
    camera: CameraProfile
    imu: ImuProfile
    joints: JointProfile
    reward: RewardProfile
    actuation: ActuationProfile
    variation: VariationProfile

    @property
    def sha256(self) -> str:
        """Hash over every number; stands in the JSON of each measurement made under the profile."""
        return content_hash(self)


def content_hash(record: Any, left_out: tuple[str, ...] = ()) -> str:
    """SHA-256 of a dataclass's values, its name, documentation and the fields of `left_out` left out."""
    plain = dataclasses.asdict(record)
    for name in ("name", "doc", *left_out):
        plain.pop(name, None)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def load_profile(path: Path) -> Profile:
    """Read and check a profile; raises InvalidInputError with every fault in the file."""
    return load(path, Profile)


def write_profile(path: Path, made: Profile, *, durable: bool = False) -> str:
    """A profile that was computed, as a file that reads back to the same numbers; its path, to be used as a name.

    durable: on the disk when this returns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(plain(dataclasses.asdict(made)), sort_keys=False, allow_unicode=True, width=120)
    with replaced(path, durable=durable) as file:
        file.write(text.encode())
    return str(path)
