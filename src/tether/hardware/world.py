"""The physical robot behind the World protocol: a tick writes the gated command and gives what the sensors had.

The same face as the simulated worlds, without a truth, an end of an episode, or a second chance: what a seed means is
up to whoever puts the cube there. Devices that fail are silent, which is what the gate acts on; they never give old
samples as new ones.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from tether.clock import Clock
from tether.contracts import (
    F64,
    CameraModel,
    Command,
    EpisodeSpec,
    ExecutedCommand,
    ImageSample,
    ImuSample,
    JointSample,
    Sample,
    SampleRef,
    Source,
    Stream,
    TickDelivery,
)
from tether.errors import DeadlineError, Fault, InvalidInputError
from tether.hardware.calibration import CameraCalibration
from tether.hardware.camera import Camera
from tether.hardware.imu import Imu
from tether.hardware.notices import Level, Notices
from tether.hardware.servos import ServoReading, Servos
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import ARM_JOINTS, COMMAND_JOINTS, OmniBase
from tether.safety.watchdog import Watchdog, WatchdogLimits

_BRAKING_S = 0.1
_BASE_M_S2 = 1.0
_START_FAR_RAD = 0.35
"""The first command after the servos were taken up must be near where they are, or they would jump there."""
_OFFSET_TRIES = 3
_PICTURES_S = 60.0


def ros_offset_ns() -> int:
    """What to add to time.monotonic_ns for time.time_ns, of the quickest of a few looks at both."""
    best: tuple[int, int] | None = None
    for _ in range(_OFFSET_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        took = time.monotonic_ns() - before
        if best is None or took < best[0]:
            best = (took, wall - before - took // 2)
    return best[1] if best is not None else 0


class PhysicalWorld:
    """See `tether.world.protocol.World`. Made of devices that `tether.hardware.build` opens; it closes them."""

    joint_names = COMMAND_JOINTS

    def __init__(
        self,
        robot: RobotModel,
        servos: Servos,
        imu: Imu | None,
        camera: Camera | None,
        lens: CameraCalibration,
        notices: Notices,
        watchdog_ns: int,
        clock: Clock,
        offset_ns: Callable[[], int],
        *,
        threads: bool = True,
    ) -> None:
        """imu, camera: None where another node publishes them. offset_ns: from the clock to the time in stamps.

        threads: sensors are read by threads of their own; False: by `attend`.
        """
        self._threads = threads
        self._offset_ns = offset_ns
        self._servos, self._imu, self._camera = servos, imu, camera
        self.notices = notices
        k = np.array([[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]])
        self.camera_model = CameraModel(lens.width, lens.height, k)
        self._base = OmniBase.of(robot)
        limits = [robot.limits(name) for name in COMMAND_JOINTS]
        self._low = np.array([limit.lower for limit in limits])
        self._high = np.array([limit.upper for limit in limits])
        self._clock = clock
        self._watchdog = Watchdog(_watchdog_limits(watchdog_ns, limits_velocity(robot), self._base))
        self._sequence = dict.fromkeys(Stream, 0)
        self._episode, self._tick = -1, 0
        self._running = False
        self._taken_up = -1
        self._measured: F64 | None = None
        self._applied: Command | None = None

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Count ticks anew; the first time, start the sensors. Nothing moves; `start_ns` is the clock's to say."""
        if self._threads and not self._running:
            self._running = True
            for device in (self._imu, self._camera):
                if device is not None:
                    device.start()
        self._episode += 1
        self._tick = 0
        self._forget()
        now_ns = self._clock.now_ns() + self._offset_ns()
        return TickDelivery(self._episode, 0, now_ns, [], None, None)

    def step(self, command: Command | None) -> TickDelivery:
        """Write a command (refused where it is malformed, and nothing moves) and gather what has come."""
        if self._servos.taken_up != self._taken_up:
            # Servos that were set up anew stand still where they are; what was commanded before means nothing to them.
            self._taken_up = self._servos.taken_up
            self._forget()
        stopped = self._choose(command)
        applied = self._applied if self._servos.ready else None
        rates = [0.0] * 3 if applied is None else self._base.wheel_rates(*applied.base_twist.tolist())
        offset_ns = self._offset_ns()
        now_ns = self._clock.now_ns() + offset_ns
        reading = self._servos.cycle(None if applied is None else applied.position.tolist(), rates)
        self._tick += 1
        samples = self._samples(reading, offset_ns)
        executed = None
        told = applied or self._standing(now_ns)
        if told is not None:
            ref = SampleRef(Stream.EXECUTED, now_ns, self._tick)
            executed = ExecutedCommand(ref, told, stopped or applied is None)
        return TickDelivery(self._episode, self._tick, now_ns, samples, executed, None)

    def attend(self, pictures: int) -> None:
        """Without threads: read the IMU once, and the camera until it has had so many pictures in all.

        DeadlineError where they do not come within some seconds.
        """
        if self._imu is not None:
            self._imu.attend()
        deadline_s = time.monotonic() + _PICTURES_S
        while self._camera is not None and (self._camera.received < pictures or not self._camera.opened):
            self._camera.attend()
            if time.monotonic() > deadline_s:
                raise DeadlineError("camera", _PICTURES_S, [f"picture {self._camera.received + 1} of {pictures}"])

    def close(self) -> None:
        """Stop the sensors, then the servos: the arm holds or lets go as its settings say."""
        for device in (self._imu, self._camera):
            if device is not None:
                device.close()
        self._servos.close()

    @property
    def has_camera(self) -> bool:
        """Whether pictures come from here, and not from another node."""
        return self._camera is not None

    @property
    def ticks(self) -> int:
        """Ticks since the last reset."""
        return self._tick

    @property
    def offset_ns(self) -> int:
        """From the clock to the time in stamps, now."""
        return self._offset_ns()

    @property
    def arrivals(self) -> dict[Stream, list[tuple[int, int]]]:
        """Stamps of the latest samples of IMU and camera, and when each was read, both on the clock."""
        devices = {Stream.IMU: self._imu, Stream.CAMERA: self._camera}
        return {stream: list(device.arrivals) for stream, device in devices.items() if device is not None}

    @property
    def servos(self) -> Servos:
        """For what a driver tells of its servos' health."""
        return self._servos

    # -- commands -------------------------------------------------------------------------------------------------

    def _choose(self, command: Command | None) -> bool:
        """What is applied in this tick; whether it is the watchdog's stop."""
        now_ns = self._clock.now_ns()
        if command is not None:
            checked = self._checked(command)
            self._watchdog.feed(checked, now_ns)
            self._applied = checked
        elif self._watchdog.expired(now_ns):
            stop = self._watchdog.stop_command(now_ns)
            position = np.clip(stop.position, self._low, self._high)
            self._applied = dataclasses.replace(stop, tick=self._tick, position=position)
            return True
        return False

    def _checked(self, command: Command) -> Command:
        """The command in the robot's order and within the joints' limits; refused where it is malformed or far off."""
        names, faults = command.joint_names, []
        position = reorder(names, command.position, COMMAND_JOINTS, "command: position")
        velocity = reorder(names, command.velocity, COMMAND_JOINTS, "command: velocity")
        numbers = (("position", position), ("velocity", velocity), ("base_twist", command.base_twist))
        for what, values in numbers:
            if not np.isfinite(values).all():
                faults.append(Fault(what, f"{np.asarray(values).tolist()}", "finite numbers"))
        if len(command.base_twist) != 3:
            faults.append(Fault("base_twist", f"{len(command.base_twist)} numbers", "3"))
        if self._applied is None and self._measured is not None and not faults:
            arm = len(ARM_JOINTS)
            far = np.abs(position - self._measured)[:arm]
            if far.max() > _START_FAR_RAD:
                name = ARM_JOINTS[int(far.argmax())]
                expected = f"within {_START_FAR_RAD:g} rad of where it is when the servos have just been taken up"
                faults.append(Fault(f"position[{name}]", f"{far.max():.2f} rad away", expected))
        if faults:
            raise InvalidInputError("command", faults)
        clipped = np.clip(position, self._low, self._high)
        return dataclasses.replace(command, joint_names=COMMAND_JOINTS, position=clipped, velocity=velocity)

    def _standing(self, now_ns: int) -> Command | None:
        """What a robot that holds still is told, as a command."""
        if self._measured is None:
            return None
        zero = np.zeros(len(COMMAND_JOINTS))
        source = Source.FALLBACK
        return Command(self._tick, now_ns, -1, source, COMMAND_JOINTS, self._measured, zero, np.zeros(3))

    def _forget(self) -> None:
        self._watchdog.reset()
        self._applied = None

    # -- samples --------------------------------------------------------------------------------------------------

    def _samples(self, reading: ServoReading | None, offset_ns: int) -> Sequence[Sample]:
        samples: list[Sample] = []
        if self._imu is not None:
            for readout in self._imu.take():
                ref = self._ref(Stream.IMU, readout.stamp_ns + offset_ns)
                samples.append(ImuSample(ref, readout.gyro, readout.accel, readout.orientation_xyzw))
        if reading is not None:
            self._measured = reading.position
            ref = self._ref(Stream.JOINTS, reading.stamp_ns + offset_ns)
            samples.append(JointSample(ref, COMMAND_JOINTS, reading.position, reading.velocity))
        if self._camera is not None:
            for frame in self._camera.take():
                if frame.rgb.shape[:2] != (self.camera_model.height, self.camera_model.width):
                    found = f"{frame.rgb.shape[1]} × {frame.rgb.shape[0]}"
                    wanted = f"calibrated for {self.camera_model.width} × {self.camera_model.height}"
                    self.notices.add(Level.ERROR, "camera_size", f"camera: pictures of {found}, {wanted}; left out")
                    continue
                ref = self._ref(Stream.CAMERA, frame.stamp_ns + offset_ns)
                samples.append(ImageSample(ref, frame.rgb, self.camera_model))
        return samples

    def _ref(self, stream: Stream, stamp_ns: int) -> SampleRef:
        sequence = self._sequence[stream]
        self._sequence[stream] = sequence + 1
        return SampleRef(stream, stamp_ns, sequence)


def limits_velocity(robot: RobotModel) -> F64:
    """(len(COMMAND_JOINTS),) speed limits, rad/s (m/s)."""
    return np.array([robot.limits(name).velocity for name in COMMAND_JOINTS])


def _watchdog_limits(timeout_ns: int, v_max: F64, base: OmniBase) -> WatchdogLimits:
    return WatchdogLimits(
        timeout_ns=timeout_ns,
        joint_names=COMMAND_JOINTS,
        velocity_max=v_max,
        acceleration_max=v_max / _BRAKING_S,
        base_linear_m_s2=_BASE_M_S2,
        base_angular_rad_s2=_BASE_M_S2 / base.distance_m,
    )
