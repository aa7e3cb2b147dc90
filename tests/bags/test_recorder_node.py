"""The recorder node goes down in time though the disk is slow, and the bag is whole when its process ends."""

from __future__ import annotations

import functools
import threading
from pathlib import Path

import pytest
from mcap.writer import CompressionType

from tether import topics
from tether.bags import open_bag
from tether.bags.mcap_output import McapOutput
from tether.bags.writer import BagWriter
from tether.codec import encode, sensors

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("tether_msgs.msg", reason="tether_msgs is not built; `make setup` builds it")
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
        node._taker(topics.EVENTS)(encode(event))
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
