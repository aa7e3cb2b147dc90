"""The recorder node goes down in time though the disk is slow, and the bag is whole when its process ends."""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path

import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType

from tether import topics
from tether.bags import open_bag
from tether.bags.mcap_output import McapOutput
from tether.bags.writer import BagWriter
from tether.codec import encode, sensors

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("tether_msgs.msg", reason="tether_msgs is not built; `make setup` builds it")
qos = pytest.importorskip("tether_ros.qos", reason="the nodes are not installed; `make setup` does it")
recorder = pytest.importorskip("tether_bringup.recorder", reason="the nodes are not installed; `make setup` does it")


def test_slow_disk_holds_neither_the_manager_up_nor_loses_the_end_of_the_bag(
    domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()

    class Stuck(McapOutput):
        def finish(self, serialized_metadata: str) -> None:
            disk.wait(60.0)
            super().finish(serialized_metadata)

    stuck = functools.partial(
        BagWriter, make_output=lambda path, options: Stuck(path, 2**20, CompressionType.ZSTD, "test")
    )
    monkeypatch.setattr(recorder, "BagWriter", stuck)
    arguments = ["--ros-args", "-p", f"bag:={tmp_path / 'bag'}", "-p", "wait_for_match:=false", "-p", "mode:=lockstep"]
    rclpy.init(args=arguments, domain_id=domain)
    try:
        node = recorder.RecorderNode()
        for transition in (node.trigger_configure, node.trigger_activate):
            assert transition() == rclpy.lifecycle.TransitionCallbackReturn.SUCCESS
        event = sensors.event_message(0, "test", sensors.Severity.INFO, "kind", "text", None)
        node._taker(topics.EVENTS)(encode(event), {})
        for transition in (node.trigger_deactivate, node.trigger_shutdown):  # with the disk still stuck
            assert transition() == rclpy.lifecycle.TransitionCallbackReturn.SUCCESS
        assert node.finished and not disk.is_set()
        disk.set()
        node.destroy_node()
    finally:
        disk.set()
        rclpy.try_shutdown()
    with open_bag(tmp_path / "bag") as bag:
        report = bag.read_through()
        assert report.intact and report.delivered == 1
        assert all(message.log_time_ns > 0 for message in bag.messages(check=False))


def test_in_real_time_a_message_has_the_time_at_which_it_came_and_not_that_of_the_recorders_turn(
    domain: int, tmp_path: Path
) -> None:
    """A recorder that gets no processor for a while records what came meanwhile as it came, not all at one moment."""
    words = ["--ros-args", "-p", f"bag:={tmp_path / 'bag'}", "-p", "wait_for_match:=false", "-p", "mode:=realtime"]
    rclpy.init(args=words, domain_id=domain)
    try:
        node = recorder.RecorderNode()
        for transition in (node.trigger_configure, node.trigger_activate):
            assert transition() == rclpy.lifecycle.TransitionCallbackReturn.SUCCESS
        sender = rclpy.create_node("sender")
        profile = qos.publisher_qos(topics.EVENTS)
        publisher = sender.create_publisher(qos.message_class(topics.EVENTS), topics.EVENTS.name, profile)
        deadline = time.monotonic() + 30.0
        while publisher.get_subscription_count() == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        sent_ns = []
        for number in range(4):
            sent_ns.append(time.time_ns())
            publisher.publish(encode(sensors.event_message(number, "test", sensors.Severity.INFO, "kind", "", None)))
            time.sleep(0.25)
        turn_ns = time.time_ns()
        executor = rclpy.executors.SingleThreadedExecutor()
        executor.add_node(node)
        for _ in range(20):
            executor.spin_once(timeout_sec=0.1)
        for transition in (node.trigger_deactivate, node.trigger_shutdown):
            assert transition() == rclpy.lifecycle.TransitionCallbackReturn.SUCCESS
        executor.shutdown()
        node.destroy_node()
        sender.destroy_node()
    finally:
        rclpy.try_shutdown()
    (file,) = (tmp_path / "bag").glob("*.mcap")
    with file.open("rb") as stream:
        met = [m for _, _, m in make_reader(stream).iter_messages(topics=[topics.EVENTS.name], log_time_order=False)]
    mine = [m for m in met if b"kind" in m.data]
    assert len(mine) == 4
    for sent, after, message in zip(sent_ns, [*sent_ns[1:], turn_ns], mine, strict=True):
        assert sent <= message.publish_time <= message.log_time < after
