"""The robot's fast sensors: what the IMU and the joint encoders read, and when it arrives."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from tether.contracts import F64, ImuSample, JointSample, SampleRef, Stream
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import SUBSTEP_NS, ModelIndex
from tether.world.profile import Profile
from tether.world.streams import DelayDraw, DelayQueue, Draw, ImuError, Rows, generator

IMU_PERIOD_NS = 5_000_000


class FastSensors:
    """Samples of IMU (200 Hz) and joints (100 Hz) of one episode, sent into the delivery queue."""

    def __init__(
        self,
        profile: Profile,
        seed: int,
        data: mujoco.MjData,
        index: ModelIndex,
        queue: DelayQueue,
    ) -> None:
        self._queue = queue
        # Views into MuJoCo's own memory, made once: asking `data` for an array costs more than reading it.
        self._sensordata: Any = data.sensordata
        self._position: Any = data.qpos[int(index.joint_qpos[0]) : int(index.joint_qpos[-1]) + 1]
        self._velocity: Any = data.qvel[int(index.joint_qvel[0]) : int(index.joint_qvel[-1]) + 1]
        self._imu_error = ImuError(profile.imu, IMU_PERIOD_NS * 1e-9, generator(seed, Draw.IMU_NOISE))
        self._imu_delay = DelayDraw(profile.imu.delay, generator(seed, Draw.IMU_DELAY))
        joints = profile.joints
        n = len(COMMAND_JOINTS)
        sigma = np.full(2 * n, joints.position_noise_rad)
        sigma[n - 1] = joints.gripper_noise_m
        sigma[n:] = joints.velocity_noise_rad_s
        sigma[2 * n - 1] = joints.gripper_noise_m * 10.0
        self._joint_error = Rows(sigma, generator(seed, Draw.JOINT_NOISE))
        self._joint_delay = DelayDraw(joints.delay, generator(seed, Draw.JOINT_DELAY))
        self._n = n
        self._imu_sequence = 0
        self._joint_sequence = 0

    def read_imu(self, after_step_ns: int) -> None:
        """Take a reading after the physics step that ended at `after_step_ns`.

        MuJoCo evaluates its accelerometer at the beginning of a step, so the reading belongs to, and is stamped with,
        that. It does so before any implicit damping of the integrator, which is why the model integrates explicitly:
        an implicit one made it read 1.6 times the acceleration that the base goes through.
        """
        stamp_ns = after_step_ns - SUBSTEP_NS
        row: F64 = self._sensordata + self._imu_error.next()
        delay_ns = self._imu_delay.next_ns()
        ref = SampleRef(Stream.IMU, stamp_ns, self._imu_sequence)
        self._imu_sequence += 1
        if delay_ns is not None:
            self._queue.send(stamp_ns + delay_ns, ImuSample(ref, row[:3], row[3:]))

    def read_joints(self, stamp_ns: int) -> None:
        """Take a reading at the start of the tick at `stamp_ns`."""
        error = self._joint_error.next()
        delay_ns = self._joint_delay.next_ns()
        ref = SampleRef(Stream.JOINTS, stamp_ns, self._joint_sequence)
        self._joint_sequence += 1
        if delay_ns is None:
            return
        position: F64 = self._position + error[: self._n]
        velocity: F64 = self._velocity + error[self._n :]
        self._queue.send(stamp_ns + delay_ns, JointSample(ref, COMMAND_JOINTS, position, velocity))
