"""Hardware in the loop: the MuJoCo world behind emulated servos, IMU and camera. What drives it are bytes.

The world runs one tick ahead of the clock: at time t it computes the tick from t on with the goals that stand in the
servos' registers at t. Sensors then read it as time passes: positions are interpolated at the moment of the request,
IMU samples enter the FIFO at their own times, pictures leave when the profile's camera would give them.

A servo without torque keeps its last set-point: the world's arm has no limp joints.
"""

from __future__ import annotations

import dataclasses
import heapq
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether.clock import Clock
from tether.contracts import (
    F64,
    TICK_NS,
    Command,
    EpisodeResult,
    EpisodeSpec,
    ImageSample,
    ImuSample,
    Source,
)
from tether.hardware.calibration import RobotCalibration
from tether.hardware.emulate.camera import CameraServer
from tether.hardware.emulate.i2c import I2cServer
from tether.hardware.emulate.mpu6050 import EmulatedMpu6050
from tether.hardware.emulate.servos import EmulatedServo, ServoBusEmulator
from tether.hardware.feetech import Register
from tether.hardware.imu_mpu6050 import FILTER_DELAY_NS
from tether.robot.model import RobotModel
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS, OmniBase
from tether.world.mujoco_world import MujocoWorld
from tether.world.profile import Delay, Profile

if TYPE_CHECKING:
    from tether.hardware.emulate.board import BoardInView  # needs OpenCV, which only calibration does

_MAX_CATCH_UP = 10
_POSES_NS = 1_000_000_000

_LOAD_FULL = 1000
_STALL_CURRENT_LSB = 2.7 / 0.0065


@dataclasses.dataclass(frozen=True, eq=False)
class _Motion:
    """Joints during one tick: from `begin` at `start_ns` to `end`. load: (n,) share of the stall torque."""

    start_ns: int
    begin: F64
    end: F64
    load: F64


def prompt(profile: Profile) -> Profile:
    """The profile without the delays that the emulated path brings itself; the camera's and the servos' stay."""
    none = Delay(0.0, 0.0, 0.0)
    imu = dataclasses.replace(profile.imu, delay=none)
    return dataclasses.replace(profile, imu=imu)


class EmulatedRobot:
    """A world made real: its devices appear in `folder` as `servos`, `i2c` and `camera`.

    world: made with a profile of `prompt`. `tick` is called at least every few milliseconds by one thread.
    """

    def __init__(
        self, world: MujocoWorld, robot: RobotModel, calibration: RobotCalibration, folder: Path, clock: Clock
    ) -> None:
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True)
        self._world = world
        self._calibration = calibration
        self._effort = np.array([robot.limits(name).effort for name in COMMAND_JOINTS])
        base = OmniBase.of(robot)
        self._twist_of = np.linalg.inv(np.array([base.wheel_rates(*row) for row in np.eye(3).tolist()]).T)
        joints = {name: EmulatedServo(servo.id) for name, servo in calibration.servos.items()}
        self._servos = [joints[name] for name in COMMAND_JOINTS]
        self._wheels = [joints[name] for name in WHEEL_JOINTS]
        self._joints = calibration.servos
        self.bus = ServoBusEmulator(folder / "servos", list(joints.values()), self._present)
        self.imu = EmulatedMpu6050()
        self._i2c = I2cServer(folder / "i2c", {0x68: self.imu})
        self.camera = CameraServer(folder / "camera")
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._poses: dict[int, tuple[tuple[F64, F64], tuple[F64, F64]]] = {}
        self._motion: _Motion | None = None
        self._motion_lock = threading.Lock()
        self._spec: EpisodeSpec | None = None
        self.board: BoardInView | None = None
        """What is held before the camera, None for nothing."""
        self.slipped_ns = 0
        self.shown = 0

    def prepare(self, spec: EpisodeSpec) -> None:
        """Put the robot and the cube where the episode starts: as after a restart, with the bus gone for a moment."""
        self.bus.unplug()
        self._begin(spec)
        with self.bus.lock:
            for name, servo in zip(COMMAND_JOINTS, self._servos, strict=True):
                at = self._joints[name].to_steps(float(self._start[COMMAND_JOINTS.index(name)]))
                servo.set(Register.PRESENT_POSITION, at)
        self.bus.power_cycle()
        self.bus.plug()

    def taken_up(self) -> bool:
        """Whether a driver has switched every servo on."""
        with self.bus.lock:
            return self.bus.plugged and all(servo.torque for servo in (*self._servos, *self._wheels))

    def start(self) -> None:
        """The episode begins now, with everything where `prepare` put it."""
        if self._spec is None:
            raise RuntimeError("no episode was prepared")
        self._begin(self._spec)

    def tick(self) -> EpisodeResult | None:
        """Let samples out, and compute the next tick when its time has come. A result ends the episode."""
        now_ns = self._clock.now_ns()
        self._let_out(now_ns)
        result = None
        late = (now_ns - self._next_ns) // TICK_NS
        if late > _MAX_CATCH_UP:
            self.slipped_ns += late * TICK_NS
            self._next_ns += late * TICK_NS
            self._world.skip(late * TICK_NS)
        while now_ns >= self._next_ns and result is None:
            result = self._step()
            self._let_out(self._clock.now_ns())
        return result

    def let_out(self) -> None:
        """Let out what is due by now, without computing a tick."""
        self._let_out(self._clock.now_ns())

    def next_due_s(self) -> float:
        """Time of the clock, in seconds, at which `tick` has something to do next."""
        first = min(self._next_ns, self._schedule[0][0] if self._schedule else self._next_ns)
        return first * 1e-9

    def close(self) -> None:
        """All devices are gone."""
        self.bus.unplug()
        self._i2c.close()
        self.camera.close()
        self._world.close()

    # -- the world --------------------------------------------------------------------------------------------------

    def _begin(self, spec: EpisodeSpec) -> None:
        self._spec = spec
        self._schedule.clear()
        start_ns = self._clock.now_ns()
        self._world.reset(spec, start_ns)
        self._next_ns = start_ns
        self._start = self._joint_positions()
        self._goal = self._start.copy()
        self._set_motion(_Motion(start_ns, self._start, self._start, np.zeros(len(COMMAND_JOINTS))))

    def _step(self) -> EpisodeResult | None:
        begin = self._joint_positions()
        start_ns = self._next_ns
        delivery = self._world.step(self._command())
        self._next_ns = start_ns + TICK_NS
        if self.board is not None:
            self._poses[self._next_ns] = self._poses_now()  # the world has just brought them up for its own picture
        force = self._world.data.actuator_force[self._world.index.joint_ctrl]
        self._set_motion(_Motion(start_ns, begin, self._joint_positions(), np.clip(force / self._effort, -1.0, 1.0)))
        for sample in delivery.samples:
            if isinstance(sample, ImuSample):
                # the chip's filter delays its content, and the driver takes that off again
                self._at(sample.ref.stamp_ns + FILTER_DELAY_NS, self._imu_sample(sample))
            elif isinstance(sample, ImageSample):
                self._at(self._next_ns, self._picture(self._with_board(sample)))
        return delivery.result

    def _with_board(self, sample: ImageSample) -> ImageSample:
        poses = self._poses.get(sample.ref.stamp_ns)
        if self.board is None or poses is None:
            return sample
        for old in [stamp for stamp in self._poses if stamp < sample.ref.stamp_ns - _POSES_NS]:
            del self._poses[old]
        return dataclasses.replace(sample, rgb=self.board.drawn(sample.rgb, sample.ref.stamp_ns, *poses))

    def _poses_now(self) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
        """Of the camera's optical frame and of the tool, in the world. MuJoCo's cameras look along -z, with y up."""
        data, index = self._world.data, self._world.index
        camera = data.cam_xmat[index.camera].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
        tool = data.xmat[index.tcp_body].reshape(3, 3).copy()
        return (data.cam_xpos[index.camera].copy(), camera), (data.xpos[index.tcp_body].copy(), tool)

    def _command(self) -> Command:
        with self.bus.lock:
            for i, (name, servo) in enumerate(zip(COMMAND_JOINTS, self._servos, strict=True)):
                if servo.torque:
                    self._goal[i] = self._joints[name].to_position(servo.get(Register.GOAL_POSITION))
            rates = [
                servo.get(Register.GOAL_VELOCITY) * self._joints[name].units_per_step if servo.torque else 0.0
                for name, servo in zip(WHEEL_JOINTS, self._wheels, strict=True)
            ]
        twist = self._twist_of @ np.array(rates)
        twist[np.abs(twist) < 1e-9] = 0.0
        zero = np.zeros(len(COMMAND_JOINTS))
        return Command(0, self._next_ns, -1, Source.GATE, COMMAND_JOINTS, self._goal.copy(), zero, twist)

    def _joint_positions(self) -> F64:
        position: F64 = self._world.data.qpos[self._world.index.joint_qpos].copy()
        return position

    # -- the devices ------------------------------------------------------------------------------------------------

    def _present(self, servos: Sequence[EmulatedServo]) -> None:
        """The present registers, as of now; called with the bus's lock."""
        with self._motion_lock:
            motion = self._motion
        if motion is None:
            return
        share = min(max((self._clock.now_ns() - motion.start_ns) / TICK_NS, 0.0), 1.0)
        position = (motion.begin + share * (motion.end - motion.begin)).tolist()
        rate = ((motion.end - motion.begin) / (TICK_NS * 1e-9)).tolist()
        for i, (name, servo) in enumerate(zip(COMMAND_JOINTS, self._servos, strict=True)):
            calibration = self._joints[name]
            load = round(float(motion.load[i]) * (_LOAD_FULL - 1))
            servo.set(Register.PRESENT_POSITION, calibration.to_steps(position[i]))
            servo.set(Register.PRESENT_VELOCITY, round(rate[i] / calibration.units_per_step))
            servo.set(Register.PRESENT_LOAD, load)
            servo.set(Register.PRESENT_CURRENT, round(abs(load) / _LOAD_FULL * _STALL_CURRENT_LSB))
        for servo in self._wheels:
            servo.set(Register.PRESENT_VELOCITY, servo.get(Register.GOAL_VELOCITY) if servo.torque else 0)

    def _imu_sample(self, sample: ImuSample) -> Callable[[], None]:
        return lambda: self.imu.push(sample.angular_velocity_rad_s.tolist(), sample.linear_acceleration_m_s2.tolist())

    def _picture(self, sample: ImageSample) -> Callable[[], None]:
        def show() -> None:
            self.shown += 1
            self.camera.show(sample.ref.stamp_ns, sample.rgb)

        return show

    def _at(self, due_ns: int, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._schedule, (due_ns, self._count, act))

    def _let_out(self, now_ns: int) -> None:
        while self._schedule and self._schedule[0][0] <= now_ns:
            heapq.heappop(self._schedule)[2]()

    def _set_motion(self, motion: _Motion) -> None:
        with self._motion_lock:
            self._motion = motion
