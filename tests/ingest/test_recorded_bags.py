"""The whole recordings as published; they are larger than the repository: TETHER_DATA names them."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from tether.contracts import F32, U8, CameraModel
from tether.ingest.camera import CameraIngest, CompressedImage, RawImage
from tether.ingest.encoder import DetectorEncoder
from tether.ingest.imu import ImuIngest, ImuReading
from tether.ingest.rejection import Reason

pytestmark = pytest.mark.skipif(
    "TETHER_DATA" not in os.environ, reason="TETHER_DATA names no folder with the big recorded bags"
)
TYPES = get_typestore(Stores.ROS2_JAZZY)


class NoDetector:
    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        return np.zeros((0, 6), dtype=np.float32)


def bag(name: str) -> Path:
    return Path(os.environ["TETHER_DATA"]) / "bags" / name


def messages(path: Path, kind: str) -> Iterator[tuple[Any, int]]:
    with AnyReader([path], default_typestore=TYPES) as reader:
        wanted = [c for c in reader.connections if c.msgtype == f"sensor_msgs/msg/{kind}"]
        for connection, time_ns, raw in reader.messages(wanted):
            yield reader.deserialize(raw, connection.msgtype), time_ns


def stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 1_000_000_000 + int(message.header.stamp.nanosec)


def reading(m: Any) -> ImuReading:
    w, a, q = m.angular_velocity, m.linear_acceleration, m.orientation
    return ImuReading(
        stamp_ns(m),
        (w.x, w.y, w.z),
        (a.x, a.y, a.z),
        (q.x, q.y, q.z, q.w),
        m.angular_velocity_covariance.tolist(),
        m.linear_acceleration_covariance.tolist(),
        m.orientation_covariance.tolist(),
    )


def imu_outcome(path: Path, own_clock: bool = False) -> Counter[str]:
    ingest, found = ImuIngest(), Counter[str]()
    for message, time_ns in messages(path, "Imu"):
        one = reading(message)
        result = ingest.ingest(one, one.stamp_ns if own_clock else time_ns)
        found["accepted" if result.rejection is None else result.rejection.reason.value] += 1
    return found


def test_husky_of_395_s_passes_whole() -> None:
    assert imu_outcome(bag("robot_localization/test1.bag")) == {"accepted": 11865}


def test_simulated_robot_passes_whole_on_its_own_clock_and_not_at_all_on_the_recorders() -> None:
    assert imu_outcome(bag("abitobot/rosbag"), own_clock=True) == {"accepted": 4712}
    assert imu_outcome(bag("abitobot/rosbag")) == {"late_stamp": 4712}


def test_synthetic_imu_recorded_four_seconds_late_is_refused() -> None:
    assert imu_outcome(bag("rosbags_rs/test_bag_mcap")) == {"late_stamp": 2}


def test_synthetic_image_of_30_bytes_is_refused_with_the_numbers() -> None:
    for m, _ in messages(bag("rosbags_rs/test_bag_mcap"), "Image"):
        raw = RawImage(stamp_ns(m), m.encoding, m.width, m.height, m.step, bool(m.is_bigendian), m.data)
        rejection = CameraIngest(DetectorEncoder(NoDetector())).ingest(raw, None, raw.stamp_ns).rejection
        assert rejection is not None and rejection.reason is Reason.SHORT_DATA
        assert "30 bytes" in rejection.detail and "921600" in rejection.detail


def test_synthetic_jpeg_of_10_bytes_is_refused_as_truncated() -> None:
    for m, _ in messages(bag("rosbags_rs/test_bag_mcap"), "CompressedImage"):
        image = CompressedImage(stamp_ns(m), m.format, m.data)
        rejection = CameraIngest(DetectorEncoder(NoDetector())).ingest(image, None, image.stamp_ns).rejection
        assert rejection is not None and rejection.reason is Reason.TRUNCATED


def test_soccer_pictures_are_taken_on_the_clock_of_their_headers() -> None:
    ingest, taken = CameraIngest(DetectorEncoder(NoDetector())), 0
    with bag("amber_soccer/soccer_goal_12.mcap").open("rb") as file:
        for _, _, stored in make_reader(file).iter_messages():
            cdr = zstandard.ZstdDecompressor().decompress(stored.data, max_output_size=50_000_000)
            m: Any = TYPES.deserialize_cdr(cdr, "sensor_msgs/msg/Image")
            raw = RawImage(stamp_ns(m), m.encoding, m.width, m.height, m.step, bool(m.is_bigendian), m.data)
            taken += ingest.ingest(raw, None, raw.stamp_ns).rejection is None
    assert taken == 2


def test_old_sqlite_bag_gives_a_dead_imu_and_pictures_without_a_stamp() -> None:
    with sqlite3.connect(f"file:{bag('rosbag2js/sample.db3')}?mode=ro", uri=True) as database:
        rows = {t: (d, n) for t, d, n in database.execute("SELECT topic_id, data, timestamp FROM messages")}
    image: Any = TYPES.deserialize_cdr(rows[2][0], "sensor_msgs/msg/Image")
    jpeg: Any = TYPES.deserialize_cdr(rows[3][0], "sensor_msgs/msg/CompressedImage")
    imu: Any = TYPES.deserialize_cdr(rows[5][0], "sensor_msgs/msg/Imu")
    camera = CameraIngest(DetectorEncoder(NoDetector()))
    raw = RawImage(0, image.encoding, image.width, image.height, image.step, False, image.data)
    for message, now_ns in ((raw, rows[2][1]), (CompressedImage(0, jpeg.format, jpeg.data), rows[3][1])):
        rejection = camera.ingest(message, None, now_ns).rejection
        assert rejection is not None and rejection.reason is Reason.ZERO_STAMP
    dead = ImuIngest().ingest(reading(imu), rows[5][1]).rejection
    assert dead is not None and dead.reason is Reason.DEAD
