"""Bytes that are no message of their topic's type, and messages that lie, are refused with ValueError alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import contract_strategies as cs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.codec import CODEC_TYPES, convert, decode, encode, sensors, typestore
from tether.contracts import Estimate, ImuBatch, ImuSample, Primitive, SampleRef, Stream

OURS = sorted(name for name in typestore().types if name.startswith(f"{CODEC_TYPES}/msg/"))
SENSORS = [
    "sensor_msgs/msg/Imu",
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/CompressedImage",
    "sensor_msgs/msg/CameraInfo",
    "sensor_msgs/msg/JointState",
    "geometry_msgs/msg/TwistStamped",
    "rosgraph_msgs/msg/Clock",
]
BACK: dict[str, Any] = {
    "tether_msgs/msg/Decision": convert.decision_from,
    "tether_msgs/msg/Estimate": convert.estimate_from,
    "tether_msgs/msg/Event": sensors.event_data,
    "tether_msgs/msg/ExecutedCommand": convert.executed_from,
    "tether_msgs/msg/FusedState": convert.fused_state_from,
    "tether_msgs/msg/HybridAction": convert.action_from,
    "tether_msgs/msg/ImageFeature": convert.image_feature_from,
    "tether_msgs/msg/ImuBatch": convert.imu_batch_from,
    "tether_msgs/msg/PolicyOutput": convert.policy_output_from,
    "tether_msgs/msg/ProposedCommand": convert.proposed_from,
    "tether_msgs/msg/SkillContext": convert.skill_from,
    "tether_msgs/msg/TickPlan": convert.tick_plan_from,
    "tether_msgs/msg/WorldTruth": convert.truth_from,
    "sensor_msgs/msg/Imu": sensors.imu_reading,
    "sensor_msgs/msg/Image": sensors.raw_image,
    "sensor_msgs/msg/CompressedImage": sensors.compressed_image,
    "sensor_msgs/msg/CameraInfo": sensors.camera_model_from,
    "sensor_msgs/msg/JointState": sensors.joint_reading,
}
"""What a node does with a message of a type as it comes."""
HEADER = b"\x00\x01\x00\x00"


def take(raw: bytes, kind: str) -> None:
    """What an inlet does; ValueError is what it reports as malformed, anything else would end the node."""
    try:
        msg = decode(raw, kind)
        if kind in BACK:
            BACK[kind](msg)
    except ValueError:
        return


@pytest.mark.parametrize("kind", [*OURS, *SENSORS])
@settings(max_examples=25, deadline=None)
@given(raw=st.binary(max_size=400))
def test_random_bytes_raise_nothing_but_value_error(kind: str, raw: bytes) -> None:
    take(raw, kind)
    take(HEADER + raw, kind)


@pytest.mark.parametrize("name", sorted(cs.WAYS))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_truncation_of_a_message_is_refused(name: str, data: st.DataObject) -> None:
    way = cs.WAYS[name]
    msg = way.into(data.draw(way.records))
    raw = encode(msg)
    for length in range(len(raw)):
        with pytest.raises(ValueError, match="are not a message of this type"):
            decode(raw[:length], msg.__msgtype__)


@pytest.mark.parametrize("name", sorted(cs.WAYS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_flipped_bytes_raise_nothing_but_value_error(name: str, data: st.DataObject) -> None:
    way = cs.WAYS[name]
    msg = way.into(data.draw(way.records))
    raw = bytearray(encode(msg))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    take(bytes(raw), msg.__msgtype__)


@settings(max_examples=20, deadline=None)
@given(raw=st.binary(min_size=4, max_size=64))
def test_trailing_bytes_beyond_cdr_padding_are_refused(raw: bytes) -> None:
    msg = convert.ref_message(SampleRef(Stream.IMU, 5, 1))
    with pytest.raises(ValueError, match="are not a message of this type"):
        decode(encode(msg) + raw, "tether_msgs/msg/SampleRef")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_imu_batch_with_a_number_that_is_not_finite_is_refused_by_field(bad: float) -> None:
    ref = SampleRef(Stream.IMU, 5, 1)
    for gyro, accel, field in (
        ([0.0, bad, 0.0], [0.0, 0.0, 9.8], "angular_velocity"),
        ([0.0, 0.0, 0.0], [0.0, 0.0, bad], "linear_acceleration"),
    ):
        msg = convert.imu_batch_message(ImuBatch(0, 0, 5, (ImuSample(ref, np.array(gyro), np.array(accel)),)))
        with pytest.raises(ValueError, match=field):
            convert.imu_batch_from(msg)


@pytest.mark.parametrize("field", ["p_base_cube", "v_base_cube", "a_base_cube"])
def test_estimate_that_is_not_finite_is_refused_by_field(field: str) -> None:
    broken = dataclasses.replace(Estimate.none(5), **{field: np.array([0.0, np.nan, 0.0])})
    with pytest.raises(ValueError, match=r"position|velocity|acceleration"):
        convert.estimate_from(convert.estimate_message(broken))
    with pytest.raises(ValueError, match="sigma_m"):
        convert.estimate_from(convert.estimate_message(dataclasses.replace(Estimate.none(5), sigma_m=float("nan"))))


def test_estimate_of_one_who_has_seen_nothing_has_an_infinite_error_and_passes() -> None:
    assert convert.estimate_from(convert.estimate_message(Estimate.none(5))).sigma_m == float("inf")


@settings(max_examples=30, deadline=None)
@given(action=cs.actions.filter(lambda a: a.params.size > 0), data=st.data())
def test_action_with_a_parameter_that_is_not_finite_is_refused(action: Any, data: st.DataObject) -> None:
    params = action.params.copy()
    params[data.draw(st.integers(0, params.size - 1))] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    with pytest.raises(ValueError, match="params"):
        convert.action_from(convert.action_message(dataclasses.replace(action, params=params), 0))


@settings(max_examples=10, deadline=None)
@given(skill=cs.skills)
def test_mask_of_another_number_of_primitives_is_refused(skill: Any) -> None:
    short = dataclasses.replace(skill, primitive_mask=np.ones(len(Primitive) - 1, np.bool_))
    with pytest.raises(ValueError, match=rf"primitive_mask.*{len(Primitive)}"):
        convert.skill_from(convert.skill_message(short))


@settings(max_examples=10, deadline=None)
@given(state=cs.fused_states.filter(lambda s: s.joints is not None))
def test_state_whose_joints_have_fewer_numbers_than_names_is_refused(state: Any) -> None:
    msg = convert.fused_state_message(state, 0)
    msg.joint_names = [*msg.joint_names, "one_more"]
    with pytest.raises(ValueError, match="joint_position"):
        convert.fused_state_from(msg)
