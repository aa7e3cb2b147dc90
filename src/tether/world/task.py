"""Tasks: where the cube lies, how the base is carried, and what counts as success. YAML read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError
from tether.world.profile import content_hash, rising


@dataclass(frozen=True)
class CubeSpec:
    """The cube and where it may lie at the start, in the base frame (of a base at rest): low and high of each."""

    side_m: float = bounded(0.01, 0.05, unit="m")
    mass_kg: float = bounded(0.002, 0.2, unit="kg")
    x_m: tuple[float, float] = bounded(0.05, 0.45, unit="m")
    y_m: tuple[float, float] = bounded(-0.3, 0.3, unit="m")
    yaw_rad: tuple[float, float] = bounded(-3.15, 3.15, unit="rad")

    def __post_init__(self) -> None:
        faults = rising(self, "x_m", "y_m", "yaw_rad")
        if faults:
            raise InvalidInputError("cube", faults)


@dataclass(frozen=True)
class DistractorSpec:
    """A cube that is not the task's: its colour, and where it may lie at the start, in the base frame."""

    side_m: float = bounded(0.01, 0.05, unit="m")
    mass_kg: float = bounded(0.002, 0.2, unit="kg")
    rgb: tuple[float, float, float] = bounded(0.0, 1.0)
    x_m: tuple[float, float] = bounded(0.05, 0.45, unit="m")
    y_m: tuple[float, float] = bounded(-0.3, 0.3, unit="m")
    apart_m: float = bounded(0.0, 0.2, unit="m", doc="least distance from the cube and from other distractors")

    def __post_init__(self) -> None:
        faults = rising(self, "x_m", "y_m")
        if faults:
            raise InvalidInputError("distractor", faults)


@dataclass(frozen=True)
class CarrierSpec:
    """A carrier that takes the base round a circle and turns about at random moments.

    The base's centre goes round a circle of `radius_m` at a speed drawn from `speed_m_s`; after a time drawn from
    `interval_s` it slows down and goes the other way round. Angular acceleration and its rate of change stay within
    `acceleration_rad_s2` and `jerk_rad_s3`, so what cannot be predicted over a horizon h from a known state is at
    most radius · jerk · h³ / 6. The ground is uneven: heave and tilt of the given amplitudes.
    """

    radius_m: float = bounded(0.005, 0.2, unit="m")
    speed_m_s: tuple[float, float] = bounded(0.0, 0.5, unit="m/s")
    interval_s: tuple[float, float] = bounded(0.2, 20.0, unit="s")
    acceleration_rad_s2: float = bounded(0.5, 100.0, unit="rad/s^2")
    jerk_rad_s3: float = bounded(5.0, 5000.0, unit="rad/s^3")
    heave_m: float = bounded(0.0, 0.01, unit="m")
    tilt_rad: float = bounded(0.0, 0.05, unit="rad")
    uneven_hz: tuple[float, float] = bounded(0.05, 5.0, unit="Hz")

    def __post_init__(self) -> None:
        faults = rising(self, "speed_m_s", "interval_s", "uneven_hz")
        if faults:
            raise InvalidInputError("carrier", faults)

    def unpredictable_m(self, horizon_s: float) -> float:
        """Largest displacement over `horizon_s` that no knowledge of the present state foretells, in metres."""
        return self.radius_m * self.jerk_rad_s3 * horizon_s**3 / 6.0


@dataclass(frozen=True)
class SuccessSpec:
    """Cube lifted `lift_m` for `hold_s` within `time_limit_s`; at most `max_attempts` closings of the gripper."""

    lift_m: float = bounded(0.01, 0.3, unit="m")
    hold_s: float = bounded(0.05, 5.0, unit="s")
    time_limit_s: float = bounded(1.0, 600.0, unit="s")
    max_attempts: int = bounded(1, 100)

    def __post_init__(self) -> None:
        if self.hold_s >= self.time_limit_s:
            fault = Fault("hold_s", f"{self.hold_s:g}", f"less than time_limit_s = {self.time_limit_s:g}")
            raise InvalidInputError("success", [fault], "an episode could never be won")


@dataclass(frozen=True)
class Task:
    """One task. start: joint positions at reset by name; carrier: null where the base stands still."""

    name: str
    doc: str
    cube: CubeSpec
    success: SuccessSpec
    start: dict[str, float]
    carrier: CarrierSpec | None
    distractors: tuple[DistractorSpec, ...] = ()

    @property
    def sha256(self) -> str:
        """Hash over every number; stands in the JSON of each measurement made on the task."""
        return content_hash(self, left_out=() if self.distractors else ("distractors",))


def load_task(path: Path) -> Task:
    """Read and check a task; raises InvalidInputError with every fault in the file."""
    return load(path, Task)
