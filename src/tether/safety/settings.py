"""Limits of the gate: config/safety.yaml as frozen dataclasses. Nothing here means "off" or "unlimited".

What the robot description can say (position and velocity of joints) comes from there; what it cannot say
stands in the file. Two named lists, both loud in the log: `not_fitted`, hardware that this robot does not
have, and `disabled_checks`, which a physical robot refuses.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from tether.config import bounded, load
from tether.contracts import TICK_NS, Mode, Primitive, Source, Stream
from tether.errors import Fault, InvalidInputError
from tether.safety.breaker import BreakerLimits
from tether.safety.heartbeat import HeartbeatRules

TICK_S = TICK_NS * 1e-9


class Check(str, Enum):
    """Every judgement of the gate, by the name that verdicts carry."""

    FINITE = "finite"
    JOINT_NAMES = "joint_names"
    MALFORMED = "malformed"
    MODE = "mode"
    SOURCE = "source"
    PRIMITIVE = "primitive"
    COMMAND_AGE = "command_age"
    SENSOR_SILENCE = "sensor_silence"
    STAMP_AGE = "stamp_age"
    SENSOR_REPEATS = "sensor_repeats"
    TILT = "tilt"
    SHOCK = "shock"
    FREE_FALL = "free_fall"
    SERVO_TEMPERATURE = "servo_temperature"
    SERVO_CURRENT = "servo_current"
    SERVO_VOLTAGE = "servo_voltage"
    GRIPPER_EFFORT = "gripper_effort"
    JOINT_POSITION = "joint_position"
    JOINT_VELOCITY = "joint_velocity"
    JOINT_ACCELERATION = "joint_acceleration"
    JOINT_JERK = "joint_jerk"
    WORKSPACE = "workspace"
    BASE_LINEAR = "base_linear"
    BASE_ANGULAR = "base_angular"
    CLOCK = "clock"
    TICK_GAP = "tick_gap"
    EARLY_TICK = "early_tick"
    ANCHOR = "anchor"
    WATCHDOG = "watchdog"
    HEARTBEAT = "heartbeat"
    REWARD = "reward"
    FLOOD = "flood"
    MODEL_SIGNATURE = "model_signature"
    SKILL_SIGNATURE = "skill_signature"
    STATE_INTEGRITY = "state_integrity"
    ATTESTATION = "attestation"
    INTERNAL = "internal"


CAN_BE_DISABLED = frozenset(
    {
        Check.SENSOR_SILENCE,
        Check.STAMP_AGE,
        Check.SENSOR_REPEATS,
        Check.TILT,
        Check.SHOCK,
        Check.FREE_FALL,
        Check.JOINT_ACCELERATION,
        Check.JOINT_JERK,
        Check.WORKSPACE,
    }
)
"""Checks that a simulation may switch off by name. The others hold wherever the gate runs."""


class Hardware(str, Enum):
    """What a robot may lack. Its checks then have no input; naming it here says that this is known."""

    CAMERA = "camera"
    IMU = "imu"
    SERVO_TEMPERATURE = "servo_temperature"
    SERVO_CURRENT = "servo_current"
    SERVO_VOLTAGE = "servo_voltage"
    GRIPPER_EFFORT = "gripper_effort"


SERVO_HEALTH = (Hardware.SERVO_TEMPERATURE, Hardware.SERVO_CURRENT, Hardware.SERVO_VOLTAGE)
"""What bus servos tell of themselves, and worlds without a bus do not."""


@dataclass(frozen=True)
class StreamLimits:
    """silence: steady time since the last sample came. stamp age: age of the newest sample's acquisition."""

    silence_max_ms: float = bounded(10, 2000, unit="ms")
    stamp_age_max_ms: float = bounded(10, 2000, unit="ms")


@dataclass(frozen=True)
class AgeLimits:
    """The three ages, and how long things may take. future_max: clock error that a stamp may show."""

    joints: StreamLimits
    imu: StreamLimits
    camera: StreamLimits
    command_max_ms: float = bounded(10, 500, unit="ms")
    future_max_ms: float = bounded(0, 100, unit="ms")
    tick_gap_max_ms: float = bounded(15, 500, unit="ms")
    arm_wait_max_ms: float = bounded(10, 60_000, unit="ms")

    def of(self, stream: Stream) -> StreamLimits:
        """Limits of a monitored stream."""
        return {Stream.JOINTS: self.joints, Stream.IMU: self.imu, Stream.CAMERA: self.camera}[stream]


@dataclass(frozen=True)
class RepeatLimits:
    """From when joint states that stay the same, bit for bit, mean a dead sensor; a robot at rest repeats them.

    Pictures and IMU readings are judged at their ingest (`CameraConfig`, `ImuConfig`).
    """

    joints_moved_rad: float = bounded(0.005, 1.0, unit="rad", doc="how far a set-point of the arm has to have moved")
    joints_said_rad: float = bounded(0.002, 1.0, unit="rad", doc="or how far the arm has moved by the speed it says")
    joints_same_max: int = bounded(3, 1000, unit="samples", doc="so many after that: servos take time to begin")


@dataclass(frozen=True)
class JointDynamics:
    """What a URDF cannot say of a joint. Units rad (m for prismatic) per s² and s³."""

    acceleration_max: float = bounded(0.01, 2000, unit="rad/s^2 or m/s^2")
    jerk_max: float = bounded(1, 1e6, unit="rad/s^3 or m/s^3")

    def __post_init__(self) -> None:
        # With this, braking can begin within one tick from any admissible state; below it no tick-by-tick
        # limiter could keep position, velocity, acceleration and jerk at once.
        low = self.acceleration_max / TICK_S
        if self.jerk_max < low * (1.0 - 1e-9):
            fault = Fault("jerk_max", f"{self.jerk_max:g}", f"at least acceleration_max / {TICK_S:g} s = {low:g}")
            raise InvalidInputError("joint dynamics", [fault])


@dataclass(frozen=True)
class BaseLimits:
    """The base's twist. Linear and angular are limited apart: metres and radians are never added."""

    linear_max_m_s: float = bounded(0.01, 2.0, unit="m/s")
    angular_max_rad_s: float = bounded(0.01, 6.0, unit="rad/s")
    linear_acceleration_m_s2: float = bounded(0.1, 20.0, unit="m/s^2")
    angular_acceleration_rad_s2: float = bounded(0.1, 100.0, unit="rad/s^2")


@dataclass(frozen=True)
class Box:
    """Axis-aligned box in the root link's frame, corners in metres."""

    low_m: tuple[float, float, float] = bounded(-5, 5, unit="m")
    high_m: tuple[float, float, float] = bounded(-5, 5, unit="m")

    def __post_init__(self) -> None:
        faults = [
            Fault(f"low_m[{i}]", f"{a:g}", f"below high_m[{i}] = {b:g}")
            for i, (a, b) in enumerate(zip(self.low_m, self.high_m, strict=True))
            if not a < b
        ]
        if faults:
            raise InvalidInputError("box", faults)


@dataclass(frozen=True)
class Cylinder:
    """Upright cylinder in the root link's frame, metres."""

    x_m: float = bounded(-5, 5, unit="m")
    y_m: float = bounded(-5, 5, unit="m")
    radius_m: float = bounded(0.001, 5, unit="m")
    low_m: float = bounded(-5, 5, unit="m")
    high_m: float = bounded(-5, 5, unit="m")

    def __post_init__(self) -> None:
        if not self.low_m < self.high_m:
            raise InvalidInputError("cylinder", [Fault("low_m", f"{self.low_m:g}", f"below {self.high_m:g}")])


@dataclass(frozen=True)
class WorkspaceLimits:
    """Where each named link's origin may be: inside `box`, outside every keep-out."""

    links: tuple[str, ...]
    box: Box
    keep_out_boxes: dict[str, Box]
    keep_out_cylinders: dict[str, Cylinder]

    def __post_init__(self) -> None:
        if not self.links:
            raise InvalidInputError("workspace", [Fault("links", "an empty list", "at least one link")])


@dataclass(frozen=True)
class ImuLimits:
    """Tilt scales motion down from `slow` and stops at `stop`; shock and free fall stop. The stops latch."""

    filter_s: float = bounded(0.02, 2.0, unit="s", doc="time constant of the low-pass on acceleration")
    tilt_slow_rad: float = bounded(0.02, 1.5, unit="rad")
    tilt_stop_rad: float = bounded(0.03, 1.57, unit="rad")
    shock_max_m_s2: float = bounded(5, 500, unit="m/s^2", doc="largest |a| - g of one sample")
    free_fall_m_s2: float = bounded(0.5, 9, unit="m/s^2", doc="low-passed |a| below which nothing carries it")

    def __post_init__(self) -> None:
        if not self.tilt_slow_rad < self.tilt_stop_rad:
            fault = Fault("tilt_slow_rad", f"{self.tilt_slow_rad:g}", f"below tilt_stop_rad {self.tilt_stop_rad:g}")
            raise InvalidInputError("imu limits", [fault])


@dataclass(frozen=True)
class ServoLimits:
    """Health of the servos. Temperature slows before it stops; current and voltage stop while outside."""

    silence_max_ms: float = bounded(10, 10_000, unit="ms")
    temperature_slow_c: float = bounded(20, 120, unit="°C")
    temperature_stop_c: float = bounded(20, 120, unit="°C")
    current_max_a: float = bounded(0.05, 50, unit="A")
    voltage_min_v: float = bounded(3, 60, unit="V")
    voltage_max_v: float = bounded(3, 60, unit="V")

    def __post_init__(self) -> None:
        faults = []
        if not self.temperature_slow_c < self.temperature_stop_c:
            faults.append(Fault("temperature_slow_c", f"{self.temperature_slow_c:g}", "below temperature_stop_c"))
        if not self.voltage_min_v < self.voltage_max_v:
            faults.append(Fault("voltage_min_v", f"{self.voltage_min_v:g}", "below voltage_max_v"))
        if faults:
            raise InvalidInputError("servo limits", faults)


@dataclass(frozen=True)
class GripperLimits:
    """Above `effort_max` the gripper may hold or open, not close further. Closing lowers its position."""

    joint: str
    effort_max: float = bounded(0.01, 500, unit="N or N m")


@dataclass(frozen=True)
class ModeRules:
    """What a mode lets pass: whose commands, which primitives, at which share of full speed."""

    sources: tuple[Source, ...]
    primitives: tuple[Primitive, ...]
    speed_share: float = bounded(0.01, 1.0)

    def __post_init__(self) -> None:
        lists: dict[str, tuple[Source, ...] | tuple[Primitive, ...]]
        lists = {"sources": self.sources, "primitives": self.primitives}
        faults = [Fault(name, "an empty list", "at least one") for name, values in lists.items() if not values]
        for name, values in lists.items():
            twice = dict.fromkeys(value.name for value in values if values.count(value) > 1)
            faults += [Fault(name, f"{value} more than once", "each at most once") for value in twice]
        if faults:
            raise InvalidInputError("mode rules", faults)

    @cached_property
    def primitives_all(self) -> bool:
        """Whether every primitive may run."""
        return set(self.primitives) == set(Primitive)


@dataclass(frozen=True)
class ModeTable:
    """Rules of the modes in which the robot may move. INIT, ARMED and STOP let nothing pass."""

    active: ModeRules
    degraded: ModeRules
    safe: ModeRules
    slow: ModeRules

    def of(self, mode: Mode) -> ModeRules | None:
        """Rules of `mode`, or None where nothing may move."""
        return self._by_mode.get(mode)

    @cached_property
    def _by_mode(self) -> dict[Mode, ModeRules]:
        modes = (Mode.ACTIVE, Mode.DEGRADED, Mode.SAFE, Mode.SLOW)
        return {mode: getattr(self, mode.name.lower()) for mode in modes}


@dataclass(frozen=True)
class IntakeLimits:
    """Messages of one topic that the gate looks at: so many a second, and at most `burst` at once after a pause.

    size_max_kib: of one message; a larger one is none of this graph's, and decoding it would take the tick's time.
    """

    rate_hz: float = bounded(150, 5000, unit="Hz")
    burst: int = bounded(50, 2000)
    size_max_kib: float = bounded(16, 4096, unit="KiB")


@dataclass(frozen=True)
class SafetySettings:
    """config/safety.yaml."""

    ages: AgeLimits
    repeats: RepeatLimits
    joints: dict[str, JointDynamics]
    base: BaseLimits
    workspace: WorkspaceLimits
    imu: ImuLimits
    servos: ServoLimits
    gripper: GripperLimits
    modes: ModeTable
    heartbeats: HeartbeatRules
    breaker: BreakerLimits
    intake: IntakeLimits
    not_fitted: tuple[Hardware, ...]
    disabled_checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        faults = [
            Fault(
                "disabled_checks",
                check.value,
                f"one of {', '.join(sorted(c.value for c in CAN_BE_DISABLED))}",
            )
            for check in self.disabled_checks
            if check not in CAN_BE_DISABLED
        ]
        if not self.joints:
            faults.append(Fault("joints", "an empty mapping", "every joint that is commanded"))
        elif self.gripper.joint not in self.joints:
            faults.append(Fault("gripper: joint", repr(self.gripper.joint), f"one of {', '.join(self.joints)}"))
        if faults:
            raise InvalidInputError("safety settings", faults)

    def lacking(self, *hardware: Hardware) -> SafetySettings:
        """The same settings for a robot, or a run, that also lacks `hardware`."""
        return dataclasses.replace(self, not_fitted=tuple(dict.fromkeys((*self.not_fitted, *hardware))))

    def fits(self, hardware: Hardware) -> bool:
        """True unless `hardware` is named as not fitted."""
        return hardware not in self.not_fitted

    def checks(self, check: Check) -> bool:
        """True unless `check` is named as disabled."""
        return check not in self.disabled_checks


def load_safety(path: Path) -> SafetySettings:
    """Read and check config/safety.yaml; raises InvalidInputError with every fault in the file."""
    return load(path, SafetySettings)
