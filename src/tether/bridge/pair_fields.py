"""The arrays of a pair: names, shapes, padding. What a shard holds for each decision, and a batch for a trainer.

All arrays are float32 unless said. Padding is zero, with the count of what is real beside it; it stands first
(oldest) in time series and last among detections.

input.features (F,)               state of fusion as it was; F = 0 without an encoder
input.joint_position, .joint_velocity (6,)   newest reading that had arrived, in the order of COMMAND_JOINTS
input.imu (6, 100), input.imu_n   gyro x y z, accel x y z
input.detections (8, 6), .detections_n       of the newest picture, best first
input.tokens (T, D)               of the newest picture; (0, 0) where they are not kept
input.executed (5, 15), .executed_n          position 6, velocity 6, twist 3 of the ticks since the decision before
input.skill_id, .step_k, .step_n, .skill_params (8,), .primitive_mask (9,)
input.age_s (4,)                  of the newest camera, imu, joints and executed sample; -1 where none had arrived
input.prediction_error            -1 where unknown
input.primitive, .params (5,), .student_acted    the action that the robot followed; 1 where it was the student's
input.memory (M,)                 what the policy remembered of itself, see `tether.student.memory`
label.probability (9,)            the teacher's on the true state at the decision, of each primitive
label.mean, .spread (9, 5)        of each primitive's parameters, -1 to 1 within the skill table's bounds
label.p_base_cube (3,), .v_base_cube (3,), .base_twist (3,), .joint_position (6,), .joint_velocity (6,), .held
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.align import Arrived
from tether.contracts import (
    TICKS_PER_DECISION,
    Decision,
    FusedState,
    ImageFeature,
    Source,
    Stream,
    TruthSample,
)
from tether.errors import Fault, InvalidInputError
from tether.robot.model import reorder
from tether.robot.roles import COMMAND_JOINTS
from tether.student.labels import Label

Fields = dict[str, NDArray[Any]]

PARAMS_MAX = 5
"""Most parameters that a primitive has (reach, grasp)."""
AGES = (Stream.CAMERA, Stream.IMU, Stream.JOINTS, Stream.EXECUTED)
_N_JOINTS = len(COMMAND_JOINTS)
_EXECUTED_WIDTH = 2 * _N_JOINTS + 3


@dataclass(frozen=True)
class PairShape:
    """Sizes of the padded arrays. tokens: of the camera's encoder, (0, 0) where they are not kept."""

    imu_samples: int = 100
    detections: int = 8
    executed_ticks: int = TICKS_PER_DECISION
    skill_params: int = 8
    tokens: tuple[int, int] = (0, 0)


def input_fields(shape: PairShape, state: FusedState, decision: Decision, arrived: Arrived) -> Fields:
    """What the student had: samples that had arrived by its decision, its state, and the action that was taken."""
    staleness = arrived.staleness_ns
    ages = [staleness.get(stream.value, -1) for stream in AGES]
    error = -1.0 if state.prediction_error is None else state.prediction_error
    return {
        "input.features": _f32(state.features),
        **_joints(arrived),
        **_imu(shape, arrived),
        **_picture(shape, arrived),
        **_executed(shape, arrived),
        "input.skill_id": _f32(state.skill.skill_id),
        "input.step_k": _f32(state.skill.step_k),
        "input.step_n": _f32(state.skill.step_n),
        "input.skill_params": _padded(state.skill.params, shape.skill_params),
        "input.primitive_mask": _f32(state.skill.primitive_mask),
        "input.age_s": _f32([age * 1e-9 if age >= 0 else -1.0 for age in ages]),
        "input.prediction_error": _f32(error),
        "input.primitive": _f32(int(decision.action.primitive)),
        "input.params": _padded(decision.action.params, PARAMS_MAX),
        "input.student_acted": _f32(decision.action.source is Source.STUDENT),
    }


def label_fields(label: Label, truth: TruthSample) -> Fields:
    """What the teacher would have done, and the state that it saw."""
    return {
        "label.probability": _f32(label.probability),
        "label.mean": _f32(label.mean),
        "label.spread": _f32(label.spread),
        "label.p_base_cube": _f32(truth.p_base_cube),
        "label.v_base_cube": _f32(truth.v_base_cube),
        "label.base_twist": _f32(truth.base_twist),
        "label.joint_position": _f32(truth.joint_position),
        "label.joint_velocity": _f32(truth.joint_velocity),
        "label.held": _f32(truth.held),
    }


def _joints(arrived: Arrived) -> Fields:
    entries = arrived.streams[Stream.JOINTS.value]
    position = velocity = np.zeros(_N_JOINTS)
    if entries:
        newest = entries[-1].value
        position = reorder(newest.names, newest.position, COMMAND_JOINTS, "joint reading")
        velocity = reorder(newest.names, newest.velocity, COMMAND_JOINTS, "joint reading")
    return {"input.joint_position": _f32(position), "input.joint_velocity": _f32(velocity)}


def _imu(shape: PairShape, arrived: Arrived) -> Fields:
    entries = arrived.streams[Stream.IMU.value]
    window = np.zeros((6, shape.imu_samples), np.float32)
    if entries:
        rows = [np.concatenate((e.value.angular_velocity_rad_s, e.value.linear_acceleration_m_s2)) for e in entries]
        window[:, -len(rows) :] = np.array(rows).T
    return {"input.imu": window, "input.imu_n": _f32(len(entries))}


def _picture(shape: PairShape, arrived: Arrived) -> Fields:
    entries = arrived.streams[Stream.CAMERA.value]
    rows, tokens = np.zeros((shape.detections, 6), np.float32), np.zeros(shape.tokens, np.float32)
    n = 0
    if entries:
        picture: ImageFeature = entries[-1].value
        best = picture.detections[np.argsort(-picture.detections[:, 4], kind="stable")][: shape.detections]
        n = len(best)
        rows[:n] = best
        if picture.tokens is not None and shape.tokens != (0, 0):
            tokens = _f32(picture.tokens)
            if tokens.shape != shape.tokens:
                fault = Fault("tokens", f"shape {tokens.shape}", f"{shape.tokens}, that of the pairs")
                raise InvalidInputError("picture", [fault], "make the pair stage for this encoder")
    return {"input.detections": rows, "input.detections_n": _f32(n), "input.tokens": tokens}


def _executed(shape: PairShape, arrived: Arrived) -> Fields:
    entries = arrived.streams[Stream.EXECUTED.value]
    rows = np.zeros((shape.executed_ticks, _EXECUTED_WIDTH), np.float32)
    for row, entry in zip(rows[shape.executed_ticks - len(entries) :], entries, strict=True):
        command = entry.value.command
        row[:_N_JOINTS] = reorder(command.joint_names, command.position, COMMAND_JOINTS, "executed command")
        row[_N_JOINTS : 2 * _N_JOINTS] = reorder(command.joint_names, command.velocity, COMMAND_JOINTS, "executed")
        row[2 * _N_JOINTS :] = command.base_twist
    return {"input.executed": rows, "input.executed_n": _f32(len(entries))}


def _padded(values: NDArray[Any], size: int) -> NDArray[np.float32]:
    out = np.zeros(size, np.float32)
    out[: len(values)] = values
    return out


def _f32(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)
