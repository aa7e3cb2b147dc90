"""The estimator of the policy `classic`: cube against base from late pictures, the IMU and the arm's own joints.

On the ground the cube is followed by `CubeTracker`. Between closed fingers it is where the tool is, until the fingers
open or the camera keeps seeing it elsewhere.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from tether.contracts import F64, Estimate, ImageFeature, JointSample, SkillContext
from tether.errors import Fault, InvalidInputError
from tether.fusion.box_model import BoxModel
from tether.fusion.classic_config import ClassicConfig, load_classic_config
from tether.fusion.estimator import Arrivals
from tether.fusion.grip import Grip, GripSense
from tether.fusion.kalman import CubeMotion
from tether.fusion.tracker import CubeTracker
from tether.motion.kinematics import ArmKinematics
from tether.policy.stage import digest
from tether.robot.model import RobotModel
from tether.robot.roles import COMMAND_JOINTS

_IMU_LINK = "imu_link"
_CAMERA_FRAME = "camera_optical_frame"
_IN_HAND_SIGMA_M = 0.004
_DROPPED_SIGMA_M = 0.015
_PATH_LENGTH = 64
"""Readings of the tool that are kept: longer than a picture's delay at 100 Hz."""
_ELSEWHERE_PX = 30.0
"""A box farther than this from the image of the tool is not that of a cube in the hand."""


class ClassicEstimator:
    """See `tether.fusion.estimator.Estimator`; reads nothing but arrivals."""

    def __init__(self, robot: RobotModel, config: ClassicConfig) -> None:
        p_base_imu, rotation = robot.transform("base_link", _IMU_LINK, np.zeros(len(robot.joint_names)))
        if not np.allclose(rotation, np.eye(3), atol=1e-6):
            fault = Fault(_IMU_LINK, "turned against base_link", "axes parallel to base_link's")
            raise InvalidInputError(f"robot {robot.name!r} for the classic estimator", [fault])
        self._config = config
        self._kinematics = ArmKinematics(robot)
        self.tracker = CubeTracker(
            BoxModel(robot, _CAMERA_FRAME, config.cube.side_m), CubeMotion(p_base_imu, config.cube, config.imu), config
        )
        self._grip = GripSense(config.grip)
        self._forget()

    def reset(self, skill: SkillContext) -> None:
        """Forget everything; the estimator is the same for every task skill."""
        self.tracker.reset()
        self._grip.reset()
        self._forget()

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """Take what arrived; the estimate at `stamp_ns`."""
        for batch in arrivals.imu:
            for sample in batch.samples:
                self.tracker.add_imu(sample)
        for joints in arrivals.joints:
            self._take_joints(joints)
        for picture in arrivals.pictures:
            if picture.rejected is None:
                self._take_picture(picture)
        self.tracker.tidy(stamp_ns)
        if self._in_hand and self._tool is not None:
            zero = np.zeros(3)
            return Estimate(stamp_ns, self._tool, zero, zero, _IN_HAND_SIGMA_M, True)
        return self._on_ground(stamp_ns)

    def state_hash(self) -> str:
        """Digest of filter, history and grip."""
        tool = b"".join(repr(stamp_ns).encode() + tool.tobytes() for stamp_ns, tool in self._path)
        flags = repr((self._in_hand, self._elsewhere, self._held_since_ns, self._distrusted)).encode()
        return digest(self.tracker.digest(), self._grip.dump(), tool, flags)

    def _forget(self) -> None:
        self._tool: F64 | None = None
        self._path: deque[tuple[int, F64]] = deque(maxlen=_PATH_LENGTH)
        self._in_hand = False
        self._held_since_ns = 0
        self._elsewhere = 0
        self._distrusted = False

    def _take_joints(self, joints: JointSample) -> None:
        at = {name: i for i, name in enumerate(joints.names)}
        order = [at[name] for name in COMMAND_JOINTS]
        position = joints.position[order]
        self._tool = self._kinematics.tcp(position)
        self._path.append((joints.ref.stamp_ns, self._tool))
        grip = self._grip.take(joints.ref.stamp_ns, 2.0 * float(position[-1]))
        self.tracker.set_pushed(joints.ref.stamp_ns, self._grip.touching)
        holding = grip is Grip.HOLDING and not self._distrusted
        if holding and not self._in_hand:
            self._held_since_ns = joints.ref.stamp_ns
            self._elsewhere = 0
        elif self._in_hand and not holding:
            self._let_go(joints.ref.stamp_ns)
        self._in_hand = holding
        if grip is Grip.OPEN:
            self._distrusted = False

    def _let_go(self, stamp_ns: int) -> None:
        """The cube is about where the tool was, on the ground."""
        if self._tool is not None:
            self.tracker.place_at(stamp_ns, self._tool, _DROPPED_SIGMA_M)

    def _take_picture(self, picture: ImageFeature) -> None:
        if not self._in_hand or picture.ref.stamp_ns < self._held_since_ns or self._tool is None:
            if not self._in_hand:
                self.tracker.observe(picture)
            return
        gap = self.tracker.gap_px(self._tool_at(picture.ref.stamp_ns), picture)
        if gap is None:
            return
        self._elsewhere = self._elsewhere + 1 if gap > _ELSEWHERE_PX else 0
        if self._elsewhere >= self._config.box.lost_after:
            self._in_hand, self._distrusted = False, True
            self.tracker.forget_cube()
            self.tracker.observe(picture)

    def _tool_at(self, stamp_ns: int) -> F64:
        """Where the tool was at a picture's stamp, from the readings of the last moments."""
        return min(self._path, key=lambda entry: abs(entry[0] - stamp_ns))[1]

    def _on_ground(self, stamp_ns: int) -> Estimate:
        found = self.tracker.at(stamp_ns)
        if found is None:
            return Estimate.none(stamp_ns)
        relative, seen_ns = found
        spread = float(np.linalg.eigvalsh(relative.covariance)[-1])
        sigma = math.sqrt(max(spread, 0.0) + self._config.box.calibration_m**2)
        memory = self._config.memory
        valid = sigma <= memory.sigma_m and stamp_ns - seen_ns <= round(memory.unseen_s * 1e9)
        return Estimate(stamp_ns, relative.p, relative.v, relative.a, sigma, valid)


__all__ = ["ClassicConfig", "ClassicEstimator", "load_classic_config"]
