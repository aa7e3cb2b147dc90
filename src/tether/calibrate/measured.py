"""Each step of a calibration on a bench, and what it makes of the robot's calibration and profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tether.calibrate.bench import Bench, Operator, Recording
from tether.calibrate.delays import (
    ActuatorLag,
    SampleDelay,
    SeenLag,
    actuator_lag,
    motion_in,
    sample_delay,
    seen_lag,
    steps,
)
from tether.contracts import F64, TICK_NS, Stream
from tether.errors import TetherError
from tether.hardware.calibration import ImuCalibration, RobotCalibration
from tether.hardware.feetech import STEPS_PER_TURN, Register
from tether.hardware.imu import bias_at_rest
from tether.hardware.servo_bus import ServoBus
from tether.robot.roles import COMMAND_JOINTS
from tether.world.profile import Delay, Profile

REST_S = 5.0
READS = 20
_SPREAD_STEPS = 8
_IMU_PERIOD_S = 0.005


def zeros(bus: ServoBus, calibration: RobotCalibration, pose: Mapping[str, float]) -> RobotCalibration:
    """The arm stands in a known pose, by a jig and without torque: where is each servo's zero?

    pose: joint → rad (m). Reads only; nothing is written to any servo. TetherError where one does not answer, moves, or
    would have its zero outside one turn.
    """
    servos, faults = dict(calibration.servos), []
    for name, position in pose.items():
        old = servos[name]
        read = [bus.read(old.id, Register.PRESENT_POSITION) for _ in range(READS)]
        known = [steps for steps in read if steps is not None]
        if len(known) < READS // 2 or max(known) - min(known) > _SPREAD_STEPS:
            faults.append(f"servo {old.id} ({name}): {len(known)} of {READS} replies, {known[:3]}…")
            continue
        zero = round(float(np.median(known)) - position / old.units_per_step)
        if not 0 <= zero < STEPS_PER_TURN:
            faults.append(f"servo {old.id} ({name}): zero at step {zero}; mount its horn nearer to the middle")
            continue
        servos[name] = dataclasses.replace(old, zero_step=zero)
    if faults:
        raise TetherError(
            "servo zeros: " + "; ".join(faults) + "; expected steady replies; fix: cable, id, hold it still"
        )
    return dataclasses.replace(calibration, servos=servos)


@dataclass(frozen=True)
class AtRest:
    """Noise, one sigma, of a robot that holds still; pixel_noise in counts, None where no pictures came."""

    imu: ImuCalibration
    gyro_noise_rad_s: float
    accel_noise_m_s2: float
    position_noise_rad: float
    velocity_noise_rad_s: float
    gripper_noise_m: float
    pixel_noise: float | None


def at_rest(operator: Operator, calibration: RobotCalibration, seconds: float = REST_S) -> AtRest:
    """IMU bias and noise, encoders' noise, pictures' noise. The samples have the old bias off: the new adds to it."""
    recording = operator.hold(seconds)
    gyro, accel = bias_at_rest(recording.imu)
    imu = ImuCalibration(_sum(calibration.imu.gyro_bias_rad_s, gyro), _sum(calibration.imu.accel_bias_m_s2, accel))
    positions = np.array([position for _, position, _ in recording.joints])
    velocities = np.array([velocity for _, _, velocity in recording.joints])
    return AtRest(
        imu,
        float(np.std([one.gyro for one in recording.imu], axis=0).mean()),
        float(np.std([one.accel for one in recording.imu], axis=0).mean()),
        float(positions[:, :-1].std(axis=0).mean()),
        float(velocities[:, :-1].std(axis=0).mean()),
        float(positions[:, -1].std()),
        _pixel_noise(recording),
    )


def _sum(old: tuple[float, float, float], more: F64) -> tuple[float, float, float]:
    x, y, z = (float(a + b) for a, b in zip(old, more, strict=True))
    return x, y, z


def _pixel_noise(recording: Recording) -> float | None:
    """From differences of pictures that follow each other; the median deviation leaves out what moved."""
    pictures = [rgb.astype(np.float32) for _, rgb in recording.pictures]
    if len(pictures) < 3:
        return None
    spreads = [np.median(np.abs(b - a)) for a, b in pairwise(pictures)]
    return float(1.4826 * np.median(spreads) / np.sqrt(2.0))


@dataclass(frozen=True)
class Delays:
    """Of the actuator and of each sensor; camera and seen: None where no pictures come from this robot's driver."""

    actuator: ActuatorLag
    imu: SampleDelay | None
    camera: SampleDelay | None
    seen: SeenLag | None


def delays(bench: Bench, operator: Operator, joint: str, amplitude: float, seconds: float, rate_hz: float) -> Delays:
    """Wiggle a joint about where it is, and compare what was told, measured and seen."""
    at = COMMAND_JOINTS.index(joint)
    start = operator.get_ready()
    goals = np.tile(start, (round(seconds * 1e9 / TICK_NS), 1))
    goals[:, at] += steps(amplitude, seconds, TICK_NS * 1e-9)
    recording = operator.follow([goals[0], *goals])
    operator.move(start)
    told_s, told = _series([(t, goal[at]) for t, goal in recording.goals])
    joint_s, moved = _series([(t, position[at]) for t, position, _ in recording.joints])
    lag = actuator_lag(told_s, told, joint_s, moved)
    arrivals = bench.world.arrivals
    imu = sample_delay(arrivals[Stream.IMU], _IMU_PERIOD_S) if Stream.IMU in arrivals else None
    if Stream.CAMERA not in arrivals:
        return Delays(lag, imu, None, None)
    camera = sample_delay(arrivals[Stream.CAMERA], 1.0 / rate_hz)
    return Delays(lag, imu, camera, _seen(bench, recording, joint_s, moved))


def _seen(bench: Bench, recording: Recording, joint_s: F64, moved: F64) -> SeenLag:
    """Pictures' stamps are of the graph's time, their arrivals of the clock: the difference is the same for all."""
    offset_ns = bench.world.offset_ns
    arrived = {stamp + offset_ns: arrival + offset_ns for stamp, arrival in bench.world.arrivals[Stream.CAMERA]}
    near = [(stamp, min(arrived, key=lambda one: abs(one - stamp))) for stamp, _ in recording.pictures]
    stamps = np.array([stamp for stamp, _ in near]) * 1e-9
    arrivals = np.array([stamp + arrived[key] - key for stamp, key in near]) * 1e-9
    return seen_lag(stamps, arrivals, motion_in([rgb for _, rgb in recording.pictures]), joint_s, moved)


def _series(rows: Sequence[tuple[int, float]]) -> tuple[F64, F64]:
    return np.array([t for t, _ in rows]) * 1e-9, np.array([value for _, value in rows])


def with_rest(profile: Profile, rest: AtRest) -> Profile:
    """The profile with measured noise. What an IMU's bias drifts by after calibration stays the template's."""
    imu = dataclasses.replace(
        profile.imu, gyro_noise_rad_s=rest.gyro_noise_rad_s, accel_noise_m_s2=rest.accel_noise_m_s2
    )
    joints = dataclasses.replace(
        profile.joints,
        position_noise_rad=rest.position_noise_rad,
        velocity_noise_rad_s=rest.velocity_noise_rad_s,
        gripper_noise_m=rest.gripper_noise_m,
    )
    camera = profile.camera
    if rest.pixel_noise is not None:
        camera = dataclasses.replace(camera, pixel_noise=rest.pixel_noise)
    return dataclasses.replace(profile, imu=imu, joints=joints, camera=camera)


def with_delays(profile: Profile, measured: Delays) -> Profile:
    """The profile with measured delays. The base's lag stays the template's: this robot's wheels stood still."""
    lag = measured.actuator
    actuation = dataclasses.replace(profile.actuation, dead_time_s=lag.dead_time_s, time_constant_s=lag.time_constant_s)
    result = dataclasses.replace(profile, actuation=actuation)
    if measured.imu is not None:
        result = dataclasses.replace(result, imu=dataclasses.replace(result.imu, delay=_delay(measured.imu, 0.0)))
    if measured.camera is not None and measured.seen is not None:
        late = _delay(measured.camera, measured.seen.stamp_s)
        result = dataclasses.replace(result, camera=dataclasses.replace(result.camera, delay=late))
    return result


def _delay(measured: SampleDelay, stamp_error_s: float) -> Delay:
    latency_s = max(measured.latency_s + stamp_error_s, 0.0)
    return Delay(latency_s, min(measured.jitter_s, latency_s), measured.drop)
