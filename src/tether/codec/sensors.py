"""The standard messages at the world's and the driver's edge: sensors in, gated commands out, the clock, events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tether.arrays import read_only
from tether.codec.convert import NO_DECISION, to_ns, to_time
from tether.codec.store import message
from tether.contracts import (
    CameraModel,
    Command,
    ImageSample,
    ImuSample,
    JointSample,
    SampleRef,
    Source,
    Stream,
)
from tether.ingest.camera import CompressedImage, RawImage
from tether.ingest.health import Health
from tether.ingest.imu import ImuReading
from tether.ingest.joints import JointReading

IMU_FRAME = "imu_link"
BASE_FRAME = "base_link"
_NO_COVARIANCE = read_only(np.zeros(9))
_NO_ORIENTATION = read_only(np.array([-1.0, *([0.0] * 8)]))
"""REP 145 / sensor_msgs/Imu: -1 in the first element says that the sensor gives no orientation."""


def header_message(stamp_ns: int, frame_id: str) -> Any:
    """std_msgs/Header."""
    return message("std_msgs/msg/Header")(to_time(stamp_ns), frame_id)


def clock_message(now_ns: int) -> Any:
    """rosgraph_msgs/Clock."""
    return message("rosgraph_msgs/msg/Clock")(to_time(now_ns))


def imu_message(sample: ImuSample) -> Any:
    """sensor_msgs/Imu."""
    vector, quaternion = message("geometry_msgs/msg/Vector3"), message("geometry_msgs/msg/Quaternion")
    has_orientation = sample.orientation_xyzw is not None
    orientation = sample.orientation_xyzw if sample.orientation_xyzw is not None else (0.0, 0.0, 0.0, 1.0)
    return message("sensor_msgs/msg/Imu")(
        header_message(sample.ref.stamp_ns, IMU_FRAME),
        quaternion(*map(float, orientation)),
        _NO_COVARIANCE if has_orientation else _NO_ORIENTATION,
        vector(*map(float, sample.angular_velocity_rad_s)),
        _NO_COVARIANCE,
        vector(*map(float, sample.linear_acceleration_m_s2)),
        _NO_COVARIANCE,
    )


def imu_reading(msg: Any) -> ImuReading:
    """The fields of a sensor_msgs/Imu as ingest judges them."""
    w, a, q = msg.angular_velocity, msg.linear_acceleration, msg.orientation
    return ImuReading(
        stamp_ns=to_ns(msg.header.stamp),
        angular_velocity=(w.x, w.y, w.z),
        linear_acceleration=(a.x, a.y, a.z),
        orientation_xyzw=(q.x, q.y, q.z, q.w),
        angular_velocity_covariance=msg.angular_velocity_covariance.tolist(),
        linear_acceleration_covariance=msg.linear_acceleration_covariance.tolist(),
        orientation_covariance=msg.orientation_covariance.tolist(),
    )


def joint_state_message(sample: JointSample) -> Any:
    """sensor_msgs/JointState."""
    return message("sensor_msgs/msg/JointState")(
        header_message(sample.ref.stamp_ns, ""),
        list(sample.names),
        sample.position,
        sample.velocity,
        np.zeros(0),
    )


def joint_reading(msg: Any) -> JointReading:
    """The fields of a sensor_msgs/JointState as ingest judges them."""
    stamp_ns = to_ns(msg.header.stamp)
    return JointReading(stamp_ns, msg.name, msg.position.tolist(), msg.velocity.tolist(), msg.effort.tolist())


def joint_sample_from(msg: Any, sequence: int) -> JointSample:
    """A JointSample as it stands in a sensor_msgs/JointState, not yet validated."""
    ref = SampleRef(Stream.JOINTS, to_ns(msg.header.stamp), sequence)
    return JointSample(ref, tuple(msg.name), np.asarray(msg.position), np.asarray(msg.velocity))


def image_message(sample: ImageSample) -> Any:
    """sensor_msgs/Image, rgb8."""
    height, width, channels = sample.rgb.shape
    return message("sensor_msgs/msg/Image")(
        header_message(sample.ref.stamp_ns, sample.camera.frame_id),
        height,
        width,
        "rgb8",
        0,
        width * channels,
        np.ascontiguousarray(sample.rgb).reshape(-1),
    )


def raw_image(msg: Any) -> RawImage:
    """The fields of a sensor_msgs/Image as ingest judges them; the data is a view."""
    stamp_ns = to_ns(msg.header.stamp)
    return RawImage(stamp_ns, msg.encoding, msg.width, msg.height, msg.step, bool(msg.is_bigendian), msg.data)


def compressed_image(msg: Any) -> CompressedImage:
    """The fields of a sensor_msgs/CompressedImage as ingest judges them; the data is a view."""
    return CompressedImage(to_ns(msg.header.stamp), msg.format, msg.data)


def camera_info_message(camera: CameraModel, stamp_ns: int) -> Any:
    """sensor_msgs/CameraInfo of an undistorted pinhole camera."""
    k = np.asarray(camera.k, np.float64)
    p = np.zeros((3, 4))
    p[:, :3] = k
    roi = message("sensor_msgs/msg/RegionOfInterest")(0, 0, 0, 0, False)
    return message("sensor_msgs/msg/CameraInfo")(
        header_message(stamp_ns, camera.frame_id),
        camera.height,
        camera.width,
        "plumb_bob",
        np.zeros(5),
        k.reshape(9),
        np.eye(3).reshape(9),
        p.reshape(12),
        0,
        0,
        roi,
    )


def camera_model_from(msg: Any) -> CameraModel:
    """From sensor_msgs/CameraInfo."""
    return CameraModel(
        int(msg.width), int(msg.height), np.asarray(msg.k, np.float64).reshape(3, 3), msg.header.frame_id
    )


def joint_command_message(command: Command) -> Any:
    """sensor_msgs/JointState as a command: position and velocity feed-forward by joint name."""
    return message("sensor_msgs/msg/JointState")(
        header_message(command.stamp_ns, ""),
        list(command.joint_names),
        command.position,
        command.velocity,
        np.zeros(0),
    )


def twist_message(command: Command) -> Any:
    """geometry_msgs/TwistStamped of the base."""
    vector = message("geometry_msgs/msg/Vector3")
    vx, vy, wz = map(float, command.base_twist)
    twist = message("geometry_msgs/msg/Twist")(vector(vx, vy, 0.0), vector(0.0, 0.0, wz))
    return message("geometry_msgs/msg/TwistStamped")(header_message(command.stamp_ns, BASE_FRAME), twist)


def gated_command(joint_command: Any, twist: Any, tick: int) -> Command:
    """The gated command out of the two standard messages that carry it."""
    t = twist.twist
    return Command(
        tick,
        to_ns(joint_command.header.stamp),
        NO_DECISION,
        Source.GATE,
        tuple(joint_command.name),
        np.asarray(joint_command.position, np.float64),
        np.asarray(joint_command.velocity, np.float64),
        np.array([t.linear.x, t.linear.y, t.angular.z]),
    )


class Severity:
    """Levels of tether_msgs/Event."""

    INFO = 0
    WARN = 1
    ERROR = 2


def event_message(
    stamp_ns: int, node: str, severity: int, kind: str, text: str, data: Mapping[str, Any] | None = None
) -> Any:
    """tether_msgs/Event."""
    return message("tether_msgs/msg/Event")(
        to_time(stamp_ns),
        node,
        severity,
        kind,
        text,
        json.dumps(data or {}, sort_keys=True),
        INFO=0,
        WARN=1,
        ERROR=2,
    )


def event_data(msg: Any) -> dict[str, Any]:
    """The data of a tether_msgs/Event; ValueError where it is no JSON object."""
    try:
        data = json.loads(msg.data_json)
    except RecursionError:
        raise ValueError(f"data of event {msg.kind!r} are nested too deep") from None
    if not isinstance(data, dict):
        raise ValueError(f"data of event {msg.kind!r} is {type(data).__name__}, expected an object")
    return data


def modality_status_message(health: Health, now_ns: int) -> Any:
    """tether_msgs/ModalityStatus."""
    return message("tether_msgs/msg/ModalityStatus")(
        to_time(now_ns),
        health.modality,
        health.rate_hz,
        health.age_ms,
        health.skew_ms,
        health.jitter_ms,
        health.received,
        health.accepted,
        list(health.drops),
        np.array(list(health.drops.values()), np.uint64),
    )
