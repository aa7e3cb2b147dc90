"""Bags that nobody here wrote, with what is known to be in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tether.bags import Encoding, LossKind, open_bag

DATA = Path(__file__).parent.parent / "data" / "bags"


def counts(path: Path) -> dict[str, int]:
    with open_bag(path) as bag:
        report = bag.read_through()
    return {topic.name: topic.delivered for topic in report.topics}


def test_husky_ros1_bag_is_read_whole_and_its_headers_lag_by_21_to_36_ms() -> None:
    with open_bag(DATA / "robot_localization" / "test1.bag") as bag:
        lags_ms = [
            (m.log_time_ns - m.header_stamp_ns) / 1e6
            for m in bag.messages(topics=["/imu/data"])
            if m.header_stamp_ns is not None
        ]
        report = bag.read_through()
    assert {t.name: t.delivered for t in report.topics} == {
        "/imu/data": 11865,
        "/husky_velocity_controller/odom": 3952,
        "/fix": 989,
    }
    assert report.intact and report.complete
    assert len(lags_ms) == 11865
    assert 20.0 < sorted(lags_ms)[len(lags_ms) // 2] < 37.0


def test_raspberry_pi_camera_bag_holds_one_picture_stamped_more_than_a_second_before_it_was_recorded() -> None:
    path = DATA / "fiducials" / "aruco_images.bag"
    assert counts(path) == {"/raspicam_node/camera_info": 15, "/raspicam_node/image/compressed": 1}
    with open_bag(path) as bag:
        (picture,) = bag.messages(topics=["/raspicam_node/image/compressed"])
        assert picture.encoding is Encoding.ROS1
        assert picture.message.format == "jpg"
        assert bytes(picture.message.data[:2]) == b"\xff\xd8"
        assert picture.header_stamp_ns is not None
        assert 1.2 < (picture.log_time_ns - picture.header_stamp_ns) / 1e9 < 1.3


def test_sqlite_of_2019_without_metadata_is_read_with_types_in_todays_form() -> None:
    path = DATA / "rosbag2js" / "sample.db3"
    with open_bag(path) as bag:
        messages = list(bag.messages())
        assert bag.report().intact
    assert [m.type for m in messages] == [
        "std_msgs/msg/String",
        "sensor_msgs/msg/Image",
        "sensor_msgs/msg/CompressedImage",
        "sensor_msgs/msg/NavSatFix",
        "sensor_msgs/msg/Imu",
    ]
    assert messages[1].header_stamp_ns == 0
    assert messages[1].message.encoding == "bgr8"
    assert messages[2].message.format == "bgr8; jpeg compressed bgr8"


def test_amber_names_each_of_its_twelve_absent_splits_with_its_messages() -> None:
    with open_bag(DATA / "amber_soccer") as bag:
        images = list(bag.messages())
        report = bag.report()
    assert [m.message.encoding for m in images] == ["rgb8", "rgb8"]
    missing = [loss for loss in report.losses if loss.kind is LossKind.MISSING_FILE]
    assert [loss.where for loss in missing] == [f"soccer_goal_{i}.mcap" for i in range(12)]
    assert [loss.messages for loss in missing] == [29, 24, 22, 20, 18, 20, 18, 20, 20, 18, 20, 20]
    assert report.lost_messages == 249 and report.delivered == 2
    assert report.topics[0].recorded == 251


def test_message_compression_is_undone_also_where_no_metadata_tells_of_it() -> None:
    with open_bag(DATA / "amber_soccer" / "soccer_goal_12.mcap") as bag:
        images = list(bag.messages())
        assert bag.report().intact
    assert [m.message.height * m.message.step == len(m.message.data) for m in images] == [True, True]


@pytest.mark.parametrize("name", ["test_bag_mcap", "test_bag_sqlite3"])
def test_all_94_topics_are_read_with_two_messages_each(name: str) -> None:
    found = counts(DATA / "rosbags_rs" / name)
    assert len(found) == 94 and set(found.values()) == {2}


def test_types_come_from_the_store_where_a_bag_defines_none(tmp_path: Path) -> None:
    path = tmp_path / "bare.db3"
    shutil.copy(DATA / "rosbag2js" / "sample.db3", path)
    with open_bag(path) as bag:
        assert all(not topic.definition.text for topic in bag.topics.values())
        assert bag.read_through().delivered == 5


def test_jazzy_mcap_is_delivered_in_log_time_order_though_36_messages_lie_out_of_order(tether_data: Path) -> None:
    path = tether_data / "bags" / "abitobot" / "rosbag"
    with open_bag(path) as bag:
        times = [m.log_time_ns for m in bag.messages()]
        report = bag.report()
    assert times == sorted(times) and len(times) == 6578
    assert {t.name: t.delivered for t in report.topics} == {"/imu/data": 4712, "/joint_states": 1866}
    assert report.intact and not report.notes
