"""Bags made on the spot by the libraries' own writers, one of every kind, all holding the same messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

IMU, JOINTS = "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState"
START_NS = 1_700_000_000_000_000_000
PERIOD_NS = 5_000_000

Row = tuple[str, str, int, bytes]
"""(topic, type, log time, CDR)."""


def _header(types: dict[str, Any], stamp_ns: int, frame: str) -> Any:
    time = types["builtin_interfaces/msg/Time"](sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    return types["std_msgs/msg/Header"](stamp=time, frame_id=frame)


def make_rows(count: int = 120) -> list[Row]:
    """Alternating IMU and joint messages every 5 ms, stamped 2 ms before their log time."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = store.types
    rng = np.random.default_rng(7)
    rows: list[Row] = []
    for i in range(count):
        time = START_NS + i * PERIOD_NS
        if i % 3:
            vector = types["geometry_msgs/msg/Vector3"]
            msg: Any = types[IMU](
                header=_header(types, time - 2_000_000, "imu_link"),
                orientation=types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0),
                orientation_covariance=np.zeros(9),
                angular_velocity=vector(*rng.normal(size=3)),
                angular_velocity_covariance=np.zeros(9),
                linear_acceleration=vector(*rng.normal(size=3)),
                linear_acceleration_covariance=np.zeros(9),
            )
            rows.append(("/imu/data_raw", IMU, time, bytes(store.serialize_cdr(msg, IMU))))
        else:
            msg = types[JOINTS](
                header=_header(types, time - 2_000_000, ""),
                name=["shoulder", "elbow", "wrist"],
                position=rng.normal(size=3),
                velocity=np.zeros(3),
                effort=np.zeros(0),
            )
            rows.append(("/joint_states", JOINTS, time, bytes(store.serialize_cdr(msg, JOINTS))))
    return rows


def write_mcap(
    path: Path,
    rows: list[Row],
    compression: CompressionType = CompressionType.ZSTD,
    chunk_bytes: int = 4096,
    definitions: bool = True,
    **options: Any,
) -> Path:
    """A bare .mcap file by the mcap library."""
    store = get_typestore(Stores.ROS2_JAZZY)
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=chunk_bytes, compression=compression, **options)
        writer.start("ros2", "test")
        channels: dict[str, int] = {}
        for topic, type_, time, data in rows:
            if topic not in channels:
                text = store.generate_msgdef(type_, ros_version=2)[0] if definitions else ""
                schema = writer.register_schema(type_, "ros2msg" if definitions else "", text.encode())
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], time, data, time)
        writer.finish()
    return path


def write_rosbag2(
    path: Path,
    rows: list[Row],
    storage: StoragePlugin,
    compression: CompressionMode = CompressionMode.NONE,
    version: int = 9,
) -> Path:
    """A rosbag2 folder by rosbags."""
    store = get_typestore(Stores.ROS2_JAZZY)
    writer = Writer2(path, version=version, storage_plugin=storage)
    if compression is not CompressionMode.NONE:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections: dict[str, Any] = {}
        for topic, type_, time, data in rows:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, type_, typestore=store)
            writer.write(connections[topic], time, data)
    return path


def write_ros1(path: Path, rows: list[Row], compression: Writer1.CompressionFormat | None = None) -> Path:
    """A ROS 1 bag by rosbags."""
    store = get_typestore(Stores.ROS1_NOETIC)
    jazzy = get_typestore(Stores.ROS2_JAZZY)
    writer = Writer1(path)
    if compression is not None:
        writer.set_compression(compression)
    writer.chunk_threshold = 4096
    with writer:
        connections: dict[str, Any] = {}
        for topic, type_, time, data in rows:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, type_, typestore=store)
            writer.write(connections[topic], time, jazzy.cdr_to_ros1(data, type_))
    return path


BUILDERS: dict[str, Callable[[Path, list[Row]], Path]] = {
    "mcap-zstd": lambda p, rows: write_mcap(p / "a.mcap", rows),
    "mcap-lz4": lambda p, rows: write_mcap(p / "a.mcap", rows, CompressionType.LZ4),
    "mcap-plain": lambda p, rows: write_mcap(p / "a.mcap", rows, CompressionType.NONE),
    "mcap-unchunked": lambda p, rows: write_mcap(p / "a.mcap", rows, use_chunking=False),
    "mcap-no-statistics": lambda p, rows: write_mcap(p / "a.mcap", rows, use_statistics=False),
    "mcap-no-repeats": lambda p, rows: write_mcap(p / "a.mcap", rows, repeat_channels=False, repeat_schemas=False),
    "rosbag2-mcap": lambda p, rows: write_rosbag2(p / "b", rows, StoragePlugin.MCAP),
    "rosbag2-mcap-chunk-zstd": lambda p, rows: write_rosbag2(
        p / "b", rows, StoragePlugin.MCAP, CompressionMode.STORAGE
    ),
    "rosbag2-mcap-message-zstd": lambda p, rows: write_rosbag2(
        p / "b", rows, StoragePlugin.MCAP, CompressionMode.MESSAGE
    ),
    "rosbag2-mcap-file-zstd": lambda p, rows: write_rosbag2(p / "b", rows, StoragePlugin.MCAP, CompressionMode.FILE),
    "rosbag2-sqlite": lambda p, rows: write_rosbag2(p / "b", rows, StoragePlugin.SQLITE3),
    "rosbag2-sqlite-message-zstd": lambda p, rows: write_rosbag2(
        p / "b", rows, StoragePlugin.SQLITE3, CompressionMode.MESSAGE
    ),
    "rosbag2-sqlite-file-zstd": lambda p, rows: write_rosbag2(
        p / "b", rows, StoragePlugin.SQLITE3, CompressionMode.FILE
    ),
    "ros1-plain": lambda p, rows: write_ros1(p / "a.bag", rows),
    "ros1-bz2": lambda p, rows: write_ros1(p / "a.bag", rows, Writer1.CompressionFormat.BZ2),
    "ros1-lz4": lambda p, rows: write_ros1(p / "a.bag", rows, Writer1.CompressionFormat.LZ4),
}


def data_file(bag: Path) -> Path:
    """The file that holds a bag's messages."""
    return bag if bag.is_file() else next(f for f in sorted(bag.iterdir()) if f.name != "metadata.yaml")
