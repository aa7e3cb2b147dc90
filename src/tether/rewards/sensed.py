"""The subgoals' measurements from the robot's own sensors: fingers, joints and detections instead of the world's state.

Before the grasp, the cube is where the estimate says. Fingers that are told to close and stand still between closed and
open press on it; from then on it is where the tool is, and as high as the tool has risen since. The camera is asked
whether that is so: a box elsewhere, in several pictures in a row, says that the cube was left behind. A moment is
judged only once its pictures have come, which the reward's own delay leaves time for; so is whether the fingers stood
still from that moment on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

import numpy as np

from tether.contracts import F64, CameraModel, Estimate, ExecutedCommand, ImageFeature, JointSample
from tether.fusion.box_model import BoxModel
from tether.motion.kinematics import ArmKinematics
from tether.rewards.config import RewardConfig
from tether.rewards.fingers import Fingers
from tether.rewards.measured import Measured, commanded_opening_m
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import COMMAND_JOINTS

_KEPT_NS = 2_000_000_000
"""How far back joint readings, estimates and pictures are remembered."""
_EXTRAPOLATE_S = 0.15


@dataclass(frozen=True, eq=False)
class _Moment:
    """A joint reading: tool (3,) in the base frame, the opening between the pads, what the fingers felt by then."""

    stamp_ns: int
    tool: F64
    opening_m: float
    pressing: bool


class SensedState:
    """Measurements at the stamps of the joint readings. Deterministic given what is taken, each stream in order."""

    def __init__(self, robot: RobotModel, config: RewardConfig, side_m: float) -> None:
        """side_m: of the cube, which turns a gripped tool's height into the cube's and boxes into places."""
        self.kinematics = ArmKinematics(robot)
        self._config = config.sensed
        self._box = BoxModel(robot, "camera_optical_frame", side_m)
        self._fingers = Fingers(config.sensed)
        self._settle_ns = round(config.sensed.settle_s * 1e9)
        self._stall_ns = round(config.sensed.stall_s * 1e9)
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._fingers.reset()
        self._waiting: deque[_Moment] = deque()
        self._moments: deque[_Moment] = deque()
        self._estimates: deque[Estimate] = deque()
        self._commands: deque[tuple[int, float]] = deque()
        self._pictures: deque[ImageFeature] = deque()
        self._gripped_z_m: float | None = None
        self._against = 0

    def take_joints(self, joints: JointSample) -> None:
        """A joint reading; one that is not newer than the last changes nothing."""
        stamp_ns = joints.ref.stamp_ns
        if self._moments and stamp_ns <= self._moments[-1].stamp_ns:
            return
        position = reorder(joints.names, joints.position, COMMAND_JOINTS, "joint reading")
        opening_m = 2.0 * float(position[-1])
        moment = _Moment(stamp_ns, self.kinematics.tcp(position), opening_m, self._fingers.take(stamp_ns, opening_m))
        self._moments.append(moment)
        self._waiting.append(moment)
        while self._moments[0].stamp_ns < stamp_ns - _KEPT_NS:
            self._moments.popleft()

    def take_executed(self, executed: ExecutedCommand) -> None:
        """A command that was executed."""
        self._commands.append((executed.ref.stamp_ns, commanded_opening_m(executed.command)))

    def take_estimate(self, estimate: Estimate) -> None:
        """The fusion's estimate of a decision; an invalid one is left out."""
        if estimate.valid:
            self._estimates.append(estimate)

    def take_picture(self, feature: ImageFeature) -> None:
        """What camera ingest made of a picture; a refused one is left out."""
        if feature.rejected is None and feature.camera is not None:
            self._pictures.append(feature)

    def ready(self, now_ns: int) -> list[Measured]:
        """Remove and return the measurements of all moments that are old enough to be judged at `now_ns`."""
        ready: list[Measured] = []
        while self._waiting and self._waiting[0].stamp_ns <= now_ns - self._settle_ns:
            ready.append(self._measured(self._waiting.popleft()))
        return ready

    def rest(self) -> list[Measured]:
        """The measurements of all moments that wait: the episode has ended and no more pictures come."""
        return self.ready(self._waiting[-1].stamp_ns + self._settle_ns) if self._waiting else []

    def _measured(self, moment: _Moment) -> Measured:
        commanded = _value_at(self._commands, moment.stamp_ns)
        gripping = self._at(moment.stamp_ns + self._stall_ns, moment).pressing
        if not gripping:
            self._gripped_z_m, self._against = None, 0
        elif self._gripped_z_m is None:
            self._gripped_z_m = float(moment.tool[2])
        self._ask_camera(moment)
        gripping = gripping and self._against < self._config.contradictions
        if gripping and self._gripped_z_m is not None:
            risen = max(0.0, float(moment.tool[2]) - self._gripped_z_m)
            return Measured(moment.stamp_ns, 0.0, 0.0, moment.opening_m, commanded, True, risen)
        gap = self._gap(moment)
        flat = None if gap is None else float(np.hypot(gap[0], gap[1]))
        above = None if gap is None else -float(gap[2])
        return Measured(moment.stamp_ns, flat, above, moment.opening_m, commanded, False, None)

    def _gap(self, moment: _Moment) -> F64 | None:
        """From the tool to the estimated cube, (3,); None where no estimate is near enough in time."""
        estimates = self._estimates
        while len(estimates) > 1 and estimates[1].stamp_ns <= moment.stamp_ns:
            estimates.popleft()
        if not estimates:
            return None
        h = (moment.stamp_ns - estimates[0].stamp_ns) * 1e-9
        if abs(h) > _EXTRAPOLATE_S:
            return None
        gap: F64 = estimates[0].p_base_cube + estimates[0].v_base_cube * h - moment.tool
        return gap

    def _ask_camera(self, moment: _Moment) -> None:
        """Judge the pictures up to a moment: do they show the cube where the risen tool was?"""
        pictures = self._pictures
        while pictures and pictures[0].ref.stamp_ns <= moment.stamp_ns:
            picture = pictures.popleft()
            tool = self._at(picture.ref.stamp_ns, moment).tool
            if self._gripped_z_m is None or picture.camera is None or not len(picture.detections):
                continue
            if float(tool[2]) - self._gripped_z_m >= self._config.camera_m:
                self._against = 0 if self._shows(picture.detections, tool, picture.camera) else self._against + 1

    def _shows(
        self, detections: np.ndarray[tuple[int, ...], np.dtype[np.float32]], tool: F64, camera: CameraModel
    ) -> bool:
        expected = self._box.edges_of(tool, camera)
        if expected is None:
            return True  # out of the camera's sight, which says nothing against it
        centres = 0.5 * (detections[:, :2] + detections[:, 2:4]).astype(np.float64)
        away = np.hypot(*(centres - 0.5 * (expected[:2] + expected[2:])).T)
        scale = camera.width / 320.0  # the tolerance is in pixels of a 320 px wide picture
        return bool(away.min() <= self._config.match_px * scale)

    def _at(self, stamp_ns: int, otherwise: _Moment) -> _Moment:
        """The last reading up to a time."""
        at = bisect_right(self._moments, stamp_ns, key=lambda m: m.stamp_ns) - 1
        return otherwise if at < 0 else self._moments[at]


def _value_at(history: deque[tuple[int, float]], stamp_ns: int) -> float | None:
    """The newest value up to a time; older ones are dropped."""
    while len(history) > 1 and history[1][0] <= stamp_ns:
        history.popleft()
    return history[0][1] if history and history[0][0] <= stamp_ns else None
