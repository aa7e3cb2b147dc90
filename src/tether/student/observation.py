"""What had arrived by a decision, as arrays of fixed shape: the student's input, in training and at run time alike.

`FIELDS` is the contract: names, shapes and units of the arrays, which stand in the manifest of every student model.
Numbers are scaled by the constants below, so that they are of order one; a missing modality is zeros under a mask of
zeros. Ages are of the sample against the decision, in units of `AGE_S`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tether.contracts import (
    DECISION_NS,
    F32,
    F64,
    CameraModel,
    ExecutedCommand,
    ImageFeature,
    JointSample,
    Primitive,
    SkillContext,
)
from tether.fusion.box_model import BoxModel
from tether.fusion.estimator import Arrivals
from tether.ingest.imu_window import ImuWindow
from tether.motion.kinematics import ArmKinematics
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import COMMAND_JOINTS
from tether.student.carry import Carried, ImuCurve, carry

TOKENS, TOKEN_SIZE = 48, 64
BOXES = 8
PERIODS = 5
"""Decision periods of the past that the student looks back over."""
IMU_SAMPLES = 100
SKILL_IDS, SKILL_PARAMS = 16, 8

STATE_SIZE = 12
"""Predicted state: cube from the tool (3, base axes), base twist (3), joints (6), each over STATE_SCALE."""
STATE_SCALE = (0.05, 0.05, 0.05, 0.2, 0.2, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3, 0.015)
HORIZON = 3
"""Periods ahead that the predictor is trained for in the first place."""
ROLLED = 6
"""Periods ahead that it is rolled to, on its own predictions."""

AGE_S = 0.25
SPEED_M_S = 0.2
ACCELERATION_M_S2 = 2.0
NOMINAL_M = (0.245, 0.0, 0.012)
"""Middle of the workspace: positions are given against it."""
PLACE_M = 0.1
OFF_M = 0.01
GYRO_RAD_S = 1.0
FORCE_M_S2 = 4.0
JOINT_SCALE = (1.0, 1.0, 1.0, 1.0, 1.0, 0.028)
"""rad; the finger in metres."""
JOINT_MIDDLE = (0.0, -1.0, 1.5, 1.0, 0.75, 0.015)
RATE_SCALE = (1.0, 1.0, 1.0, 1.0, 1.0, 0.05)
TWIST_SCALE = (0.2, 0.2, 1.0)
GRAVITY_M_S2 = 9.81

_UNSEEN_NS = 1_000_000_000
"""Boxes older than this say nothing of a cube that moves."""
_WHOLE = (0.6, 1.5)
_CAMERA_FRAME = "camera_optical_frame"
_IMU_LINK = "imu_link"


class Field(NamedTuple):
    """One array of an observation: name, shape, and what it holds."""

    name: str
    shape: tuple[int, ...]
    doc: str


FIELDS = (
    Field("tokens", (TOKENS, TOKEN_SIZE), "of the newest picture, as the image encoder gives them"),
    Field("tokens_age", (1,), "age / AGE_S"),
    Field("tokens_mask", (1,), "1 where there is one"),
    Field("boxes", (BOXES, 13), "newest first: x1 y1 x2 y2 to [-1, 1], confidence, size over a cube's - 1 (2), place "
          "on the ground against NOMINAL_M / PLACE_M (2), off the fit with and without IMU / OFF_M (4)"),
    Field("boxes_age", (BOXES, 1), "age / AGE_S"),
    Field("boxes_mask", (BOXES,), "1 where there is one"),
    Field("imu", (8, IMU_SAMPLES), "newest last: gyro / GYRO_RAD_S, force without gravity / FORCE_M_S2, age, mask"),
    Field("imu_mask", (1,), "1 where any came"),
    Field("joints", (12,), "positions against JOINT_MIDDLE / JOINT_SCALE, rates / RATE_SCALE"),
    Field("joints_age", (1,), "age / AGE_S"),
    Field("joints_mask", (1,), "1 where any came"),
    Field("executed", (PERIODS, 10), "newest last: the last command of each period: positions as joints, base twist, 1 "
          "where the watchdog stopped it"),
    Field("executed_mask", (PERIODS,), "1 where any came"),
    Field("skill", (SKILL_IDS,), "one-hot id of the active task skill"),
    Field("skill_params", (SKILL_PARAMS + len(Primitive),), "its parameters and mask of primitives"),
    Field("step", (8,), "sinusoids of step k and of the number of steps n"),
    Field("carried", (10,), "SI: cube in the base frame from boxes and IMU, p v a (9), root mean square off the fit"),
    Field("carried_mask", (1,), "1 where boxes and IMU came"),
    Field("coasted", (10,), "SI: the same from boxes alone"),
    Field("coasted_mask", (1,), "1 where boxes came"),
    Field("tool", (4,), "SI: tool in the base frame (3), opening between the pads"),
)  # fmt: skip
Observation = dict[str, F32]
"""One array a field, float32."""

MODALITIES = ("camera", "boxes", "imu", "joints", "skill", "step", "executed")
"""Names of the modalities, in the order of the attention output."""
DROPS: Mapping[str, tuple[str, ...]] = {
    "camera": ("tokens", "tokens_age", "tokens_mask"),
    "boxes": ("boxes", "boxes_age", "boxes_mask", "carried", "carried_mask", "coasted", "coasted_mask"),
    "imu": ("imu", "imu_mask", "carried", "carried_mask"),
    "joints": ("joints", "joints_age", "joints_mask", "tool"),
    "skill": ("skill", "skill_params"),
    "step": ("step",),
    "executed": ("executed", "executed_mask"),
}
"""Fields that are zeros where a modality is missing."""


@dataclass(frozen=True, eq=False)
class _Box:
    """A box with its place on the ground."""

    stamp_ns: int
    row: F64
    """(7,) as in the field boxes, up to the size."""
    place: F64


class Observer:
    """Keeps what arrived and makes the arrays. Deterministic in the sequence of calls; never sees a world's truth."""

    def __init__(self, robot: RobotModel, side_m: float) -> None:
        self._boxes_of = BoxModel(robot, _CAMERA_FRAME, side_m)
        self._kinematics = ArmKinematics(robot)
        self._p_imu: F64 = robot.transform("base_link", _IMU_LINK, np.zeros(len(robot.joint_names)))[0][:2]
        self._side_m = side_m
        self._imu = ImuWindow(IMU_SAMPLES)

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        self._imu.clear()
        self._boxes: list[_Box] = []
        self._picture: ImageFeature | None = None
        self._joints: tuple[int, F64, F64] | None = None
        self._periods: list[F64 | None] = [None] * PERIODS
        self._skill = _skill_fields(skill)

    @property
    def newest_picture_ns(self) -> int | None:
        """Stamp of the newest picture that was taken, None before the first."""
        return None if self._picture is None else self._picture.ref.stamp_ns

    @property
    def newest_box(self) -> tuple[int, F64] | None:
        """Stamp of the newest box and the place (2,) of its cube in the base frame of then."""
        return (self._boxes[0].stamp_ns, self._boxes[0].place) if self._boxes else None

    @property
    def newest_joints(self) -> tuple[int, F64, F64] | None:
        """Stamp, positions (6,) and tool (3,) of the newest joint reading."""
        if self._joints is None:
            return None
        return self._joints[0], self._joints[1], self._kinematics.tcp(self._joints[1])

    def turning_at(self, stamp_ns: int) -> float | None:
        """The gyro's reading about z nearest to a stamp; None where the window does not hold that moment."""
        stamps = self._imu.stamps_ns()
        if len(stamps) == 0 or not stamps[0] <= stamp_ns <= stamps[-1] + DECISION_NS // 5:
            return None
        return float(self._imu.values()[2, int(np.argmin(np.abs(stamps - stamp_ns)))])

    def take(self, stamp_ns: int, arrivals: Arrivals) -> Observation:
        """Take what arrived since the last decision; the observation at `stamp_ns`."""
        for batch in arrivals.imu:
            for sample in batch.samples:
                self._imu.insert(
                    sample.ref.stamp_ns,
                    sample.angular_velocity_rad_s.tolist(),
                    sample.linear_acceleration_m_s2.tolist(),
                )
        for joints in arrivals.joints:
            self._take_joints(joints)
        for picture in arrivals.pictures:
            if picture.rejected is None:
                self._take_picture(picture)
        self._periods = [*self._periods[1:], _last_command(arrivals.executed)]
        return self._arrays(stamp_ns)

    def digest(self) -> bytes:
        """Digest of everything that later observations depend on."""
        sha = hashlib.sha256(self._imu.values().tobytes() + self._imu.stamps_ns().tobytes())
        for box in self._boxes:
            sha.update(repr(box.stamp_ns).encode() + box.row.tobytes() + box.place.tobytes())
        if self._picture is not None:
            tokens = b"" if self._picture.tokens is None else self._picture.tokens.tobytes()
            sha.update(repr(self._picture.ref.stamp_ns).encode() + tokens)
        if self._joints is not None:
            sha.update(repr(self._joints[0]).encode() + self._joints[1].tobytes() + self._joints[2].tobytes())
        for command in self._periods:
            sha.update(b"-" if command is None else command.tobytes())
        return sha.digest()

    # -- What arrives ----------------------------------------------------------------------------------------------

    def _take_joints(self, joints: JointSample) -> None:
        if self._joints is not None and joints.ref.stamp_ns <= self._joints[0]:
            return
        position, velocity = joints.position, joints.velocity
        if joints.names != COMMAND_JOINTS:
            position = reorder(joints.names, position, COMMAND_JOINTS, "joint reading")
            velocity = reorder(joints.names, velocity, COMMAND_JOINTS, "joint reading")
        self._joints = (joints.ref.stamp_ns, position, velocity)

    def _take_picture(self, picture: ImageFeature) -> None:
        if self._picture is None or picture.ref.stamp_ns > self._picture.ref.stamp_ns:
            self._picture = picture
        box = self._box_in(picture)
        if box is not None:
            self._boxes.append(box)
            self._boxes.sort(key=lambda b: -b.stamp_ns)
            del self._boxes[BOXES:]

    def _box_in(self, picture: ImageFeature) -> _Box | None:
        """The best detection that can be a whole cube on the ground, else the best one that lies on the ground."""
        camera, found = picture.camera, None
        if camera is None:
            return None
        for row in np.asarray(picture.detections[:BOXES], np.float64):
            p = self._boxes_of.locate(row[:4], self._side_m / 2.0, camera)
            expected = None if p is None else self._boxes_of.edges_of(p, camera)
            if p is None or expected is None or float(np.abs(p[:2]).max()) > 1.0:
                continue
            share = (row[2:4] - row[:2]) / (expected[2:] - expected[:2])
            box = _Box(picture.ref.stamp_ns, np.array([*_to_unit(row[:4], camera), row[4], *(share - 1.0)]), p[:2])
            if bool(np.all((share > _WHOLE[0]) & (share < _WHOLE[1]))):
                return box
            found = found or box
        return found

    # -- The arrays ------------------------------------------------------------------------------------------------

    def _arrays(self, now_ns: int) -> Observation:
        out = {field.name: np.zeros(field.shape, np.float32) for field in FIELDS}
        out.update(self._skill)
        self._put_tokens(out, now_ns)
        curve = self._put_imu(out, now_ns)
        self._put_boxes(out, now_ns, curve)
        if self._joints is not None:
            stamp_ns, position, velocity = self._joints
            out["joints"][:] = np.concatenate(
                ((position - JOINT_MIDDLE) / JOINT_SCALE, np.clip(velocity / RATE_SCALE, -10.0, 10.0))
            )
            out["joints_age"][0] = _age(now_ns, stamp_ns)
            out["joints_mask"][0] = 1.0
            out["tool"][:] = (*self._kinematics.tcp(position), 2.0 * position[-1])
        for i, command in enumerate(self._periods):
            if command is not None:
                out["executed"][i] = command
                out["executed_mask"][i] = 1.0
        return out

    def _put_tokens(self, out: Observation, now_ns: int) -> None:
        picture = self._picture
        if picture is None or picture.tokens is None or now_ns - picture.ref.stamp_ns > _UNSEEN_NS:
            return
        out["tokens"][:] = picture.tokens
        out["tokens_age"][0] = _age(now_ns, picture.ref.stamp_ns)
        out["tokens_mask"][0] = 1.0

    def _put_imu(self, out: Observation, now_ns: int) -> ImuCurve | None:
        n = len(self._imu)
        if n == 0:
            return None
        values, age_s = self._imu.values(), (now_ns - self._imu.stamps_ns()) * 1e-9
        if age_s[-1] > AGE_S:
            return None
        scaled = np.concatenate((values[:3] / GYRO_RAD_S, values[3:] / FORCE_M_S2))
        scaled[5] -= GRAVITY_M_S2 / FORCE_M_S2
        out["imu"][:6, IMU_SAMPLES - n :] = np.clip(scaled, -10.0, 10.0)
        out["imu"][6, IMU_SAMPLES - n :] = age_s / AGE_S
        out["imu"][7, IMU_SAMPLES - n :] = 1.0
        out["imu_mask"][0] = 1.0
        return ImuCurve(np.maximum(age_s, 0.0), values)

    def _put_boxes(self, out: Observation, now_ns: int, curve: ImuCurve | None) -> None:
        boxes = [box for box in self._boxes if now_ns - box.stamp_ns <= _UNSEEN_NS]
        if not boxes:
            return
        places = np.array([box.place for box in boxes])
        age_s = np.array([now_ns - box.stamp_ns for box in boxes]) * 1e-9
        n = len(boxes)
        coasted = carry(places, age_s, self._p_imu, None)
        self._put_fit(out, "coasted", coasted)
        carried = coasted
        if curve is not None:
            carried = carry(places, age_s, self._p_imu, curve)
            self._put_fit(out, "carried", carried)
        out["boxes"][:n, :7] = [box.row for box in boxes]
        out["boxes"][:n, 7:9] = (places - NOMINAL_M[:2]) / PLACE_M
        out["boxes"][:n, 9:11] = np.clip(carried.off_m / OFF_M, -5.0, 5.0)
        out["boxes"][:n, 11:13] = np.clip(coasted.off_m / OFF_M, -5.0, 5.0)
        out["boxes_age"][:n, 0] = age_s / AGE_S
        out["boxes_mask"][:n] = 1.0

    def _put_fit(self, out: Observation, name: str, fit: Carried) -> None:
        v, a = np.clip(fit.v, -1.0, 1.0), np.clip(fit.a, -8.0, 8.0)
        p = np.clip(fit.p, -1.0, 1.0)
        out[name][:] = (*p, self._side_m / 2.0, *v, 0.0, *a, 0.0, min(fit.rms_m, 1.0))
        out[f"{name}_mask"][0] = 1.0


def _skill_fields(skill: SkillContext) -> Mapping[str, F32]:
    one_hot = np.zeros(SKILL_IDS, np.float32)
    one_hot[min(skill.skill_id, SKILL_IDS - 1)] = 1.0
    params = np.zeros(SKILL_PARAMS + len(Primitive), np.float32)
    n = min(len(skill.params), SKILL_PARAMS)
    params[:n] = skill.params[:n]
    params[SKILL_PARAMS:] = skill.primitive_mask
    waves = [f(x * w) for x in (skill.step_k, skill.step_n) for w in (1.0, 0.25) for f in (math.sin, math.cos)]
    return {"skill": one_hot, "skill_params": params, "step": np.array(waves, np.float32)}


def _last_command(executed: Sequence[ExecutedCommand]) -> F64 | None:
    if not executed:
        return None
    newest = executed[-1]
    command = newest.command
    position = command.position
    if command.joint_names != COMMAND_JOINTS:
        position = reorder(command.joint_names, position, COMMAND_JOINTS, "executed command")
    joints = (position - JOINT_MIDDLE) / JOINT_SCALE
    return np.array([*joints, *(command.base_twist / TWIST_SCALE), float(newest.watchdog_stop)])


def _to_unit(box: F64, camera: CameraModel) -> list[float]:
    """x1 y1 x2 y2 with the picture from -1 to 1."""
    size = np.array([camera.width, camera.height, camera.width, camera.height])
    return [float(v) for v in 2.0 * (box + 0.5) / size - 1.0]


def _age(now_ns: int, stamp_ns: int) -> float:
    return max(now_ns - stamp_ns, 0) * 1e-9 / AGE_S
