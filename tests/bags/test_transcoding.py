"""Old messages as today's CDR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bag_making import Row, write_mcap, write_ros1
from rosbags.rosbag1 import Writer as Writer1
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from tether import codec
from tether.bags import open_bag
from tether.bags.transcode import Transcoder

DATA = Path(__file__).parent.parent / "data" / "bags"


def test_ros1_messages_become_the_cdr_that_ros2_would_have_recorded(tmp_path: Path, rows: list[Row]) -> None:
    with open_bag(write_ros1(tmp_path / "x.bag", rows)) as bag:
        made = {name: Transcoder(bag.resolved(name), codec.typestore()) for name in bag.topics}  # type: ignore[arg-type]
        assert [made[m.topic](m.raw) for m in bag.messages()] == [row[3] for row in rows]


def test_ros2_messages_of_todays_types_pass_untouched(tmp_path: Path, rows: list[Row]) -> None:
    with open_bag(write_mcap(tmp_path / "x.mcap", rows)) as bag:
        for m in bag.messages():
            resolved = bag.resolved(m.topic)
            assert resolved is not None
            transcode = Transcoder(resolved, codec.typestore())
            assert not transcode.changed and transcode(m.raw) is m.raw


def test_every_recorded_ros1_message_can_be_decoded_as_todays_type() -> None:
    for name in ("robot_localization/test1.bag", "fiducials/aruco_images.bag"):
        with open_bag(DATA / name) as bag:
            made = {topic: Transcoder(bag.resolved(topic), codec.typestore()) for topic in bag.topics}  # type: ignore[arg-type]
            for m in bag.messages():
                message = codec.decode(made[m.topic](m.raw), made[m.topic].type)
                assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == m.header_stamp_ns


def test_types_that_changed_are_migrated_by_field_name(tmp_path: Path) -> None:
    """A JointState of some fork: another field, another order."""
    store = get_typestore(Stores.ROS1_NOETIC)
    fork = get_typestore(Stores.EMPTY)
    definition = "std_msgs/Header header\nfloat64[] position\nstring[] name\nint32 mood\n"
    fork.register(get_types_from_msg(definition, "sensor_msgs/msg/JointState"))
    fork.register({k: store.fielddefs[k] for k in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time")})
    types = fork.types
    time = types["builtin_interfaces/msg/Time"](sec=5, nanosec=6)
    header = types["std_msgs/msg/Header"](seq=1, stamp=time, frame_id="f")
    message = types["sensor_msgs/msg/JointState"](header=header, position=np.array([1.0, 2.0]), name=["a", "b"], mood=3)
    with Writer1(tmp_path / "x.bag") as writer:
        connection = writer.add_connection("/joints", "sensor_msgs/msg/JointState", typestore=fork)
        writer.write(connection, 9, fork.serialize_ros1(message, "sensor_msgs/msg/JointState"))
    with open_bag(tmp_path / "x.bag") as bag:
        (m,) = bag.messages()
        resolved = bag.resolved("/joints")
        assert resolved is not None
        today = codec.decode(Transcoder(resolved, codec.typestore())(m.raw), "sensor_msgs/msg/JointState")
    assert today.name == ["a", "b"] and today.position.tolist() == [1.0, 2.0]
    assert today.velocity.size == 0 and today.header.stamp.sec == 5


def test_ros1_types_that_only_the_bag_knows_are_published_in_its_own_layout(tmp_path: Path) -> None:
    store = get_typestore(Stores.ROS1_NOETIC)
    store.register(get_types_from_msg("std_msgs/Header header\nuint8 small\nfloat64 big\n", "own_msgs/msg/Pair"))
    time = store.types["builtin_interfaces/msg/Time"](sec=5, nanosec=6)
    header = store.types["std_msgs/msg/Header"](seq=1, stamp=time, frame_id="ab")
    message = store.types["own_msgs/msg/Pair"](header=header, small=7, big=1.5)
    with Writer1(tmp_path / "x.bag") as writer:
        connection = writer.add_connection("/pair", "own_msgs/msg/Pair", typestore=store)
        writer.write(connection, 9, store.serialize_ros1(message, "own_msgs/msg/Pair"))
    today = get_typestore(Stores.ROS2_JAZZY)
    today.register(get_types_from_msg("std_msgs/Header header\nuint8 small\nfloat64 big\n", "own_msgs/msg/Pair"))
    with open_bag(tmp_path / "x.bag") as bag:
        (m,) = bag.messages()
        resolved = bag.resolved("/pair")
        assert resolved is not None
        decoded = today.deserialize_cdr(Transcoder(resolved, codec.typestore())(m.raw), "own_msgs/msg/Pair")
    assert (decoded.header.stamp.sec, decoded.header.frame_id, decoded.small, decoded.big) == (5, "ab", 7, 1.5)  # type: ignore[attr-defined]
