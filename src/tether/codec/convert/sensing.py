"""What ingest hands on: IMU batches and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether.codec.convert.basics import ref_from, ref_message, refs_from, refs_message, to_ns, to_time
from tether.codec.store import message
from tether.codec.values import finite, finite_singles
from tether.contracts import CameraModel, ImageFeature, ImuBatch, ImuSample

_EMPTY_F64 = np.zeros(0)
_EMPTY_F32 = np.zeros(0, np.float32)


def imu_batch_message(batch: ImuBatch) -> Any:
    """tether_msgs/ImuBatch."""
    gyro = [s.angular_velocity_rad_s for s in batch.samples]
    accel = [s.linear_acceleration_m_s2 for s in batch.samples]
    return message("tether_msgs/msg/ImuBatch")(
        to_time(batch.stamp_ns),
        batch.episode,
        batch.tick,
        refs_message(s.ref for s in batch.samples),
        np.concatenate(gyro) if gyro else _EMPTY_F64,
        np.concatenate(accel) if accel else _EMPTY_F64,
        batch.token is not None,
        _EMPTY_F32 if batch.token is None else batch.token,
    )


def imu_batch_from(msg: Any) -> ImuBatch:
    """From tether_msgs/ImuBatch."""
    gyro = finite("angular_velocity", msg.angular_velocity).reshape(-1, 3)
    accel = finite("linear_acceleration", msg.linear_acceleration).reshape(-1, 3)
    refs = refs_from(msg.samples)
    samples = tuple(ImuSample(r, g, a) for r, g, a in zip(refs, gyro, accel, strict=True))
    token = finite_singles("token", msg.token) if msg.has_token else None
    return ImuBatch(int(msg.episode), int(msg.tick), to_ns(msg.stamp), samples, token)


def image_feature_message(feature: ImageFeature, episode: int, latency_ns: Mapping[str, int]) -> Any:
    """tether_msgs/ImageFeature; latency_ns may hold decode, preprocess and encode."""
    camera = feature.camera
    tokens = feature.tokens if feature.tokens is not None else np.zeros((0, 0), np.float32)
    return message("tether_msgs/msg/ImageFeature")(
        ref_message(feature.ref),
        episode,
        feature.rejected is None,
        feature.rejected or "",
        camera.frame_id if camera else "",
        camera.width if camera else 0,
        camera.height if camera else 0,
        camera.k.reshape(9) if camera else np.zeros(9),
        np.ascontiguousarray(feature.detections, np.float32).reshape(-1),
        feature.tokens is not None,
        tokens.shape[0],
        tokens.shape[1],
        np.ascontiguousarray(tokens, np.float32).reshape(-1),
        latency_ns.get("decode", 0),
        latency_ns.get("preprocess", 0),
        latency_ns.get("encode", 0),
    )


def image_feature_from(msg: Any) -> ImageFeature:
    """From tether_msgs/ImageFeature."""
    camera = None
    if msg.width:
        camera = CameraModel(int(msg.width), int(msg.height), finite("k", msg.k).reshape(3, 3), msg.frame_id)
    tokens = None
    if msg.has_tokens:
        tokens = finite_singles("tokens", msg.tokens).reshape(int(msg.token_count), int(msg.token_dim))
    detections = finite_singles("detections", msg.detections).reshape(-1, 6)
    return ImageFeature(ref_from(msg.sample), camera, detections, tokens, None if msg.accepted else msg.rejection)
