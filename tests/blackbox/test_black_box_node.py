"""The node keeps what it hears, writes when something trips, and says where."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box_making import event, executed, story, verdict

from tether import topics
from tether.bags import open_bag
from tether.blackbox.dump import BAG
from tether.contracts import Mode

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("tether_msgs.msg", reason="tether_msgs is not built; `make setup` builds it")
black_box = pytest.importorskip("tether_safety.black_box", reason="the nodes are not installed; `make setup` does it")
TOPICS = {topic.name: topic for topic in vars(topics).values() if isinstance(topic, topics.Topic)}


class Saying:
    """A node, and what it said."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.said: list[tuple[str, str]] = []
        node.event = lambda severity, kind, text, data=None: self.said.append((kind, text))

    def hear(self, topic: str, raw: bytes) -> None:
        self.node._taker(TOPICS[topic])(raw)

    def until(self, kind: str) -> str:
        deadline = time.monotonic() + 60.0
        while True:
            self.node._look()
            found = [text for said, text in self.said if said == kind]
            if found:
                return found[0]
            assert time.monotonic() < deadline, f"{kind}: not said, only {self.said}"
            time.sleep(0.02)


@pytest.fixture
def node(tmp_path: Path, domain: int) -> Iterator[Saying]:
    arguments = ["--ros-args", "-p", f"folder:={tmp_path / 'box'}", "-p", "wait_for_match:=false"]
    rclpy.init(args=arguments, domain_id=domain)
    try:
        made = black_box.BlackBoxNode()
        saying = Saying(made)
        for transition in (made.trigger_configure, made.trigger_activate):
            assert transition() == rclpy.lifecycle.TransitionCallbackReturn.SUCCESS
        yield saying
        made.destroy_node()
    finally:
        rclpy.try_shutdown()


def test_a_latched_stop_is_written_and_the_place_is_said(node: Saying, tmp_path: Path) -> None:
    for topic, raw, _ in story(60):
        node.hear(topic, raw)
    assert "tilt" in node.until("black_box_trip")
    node.node.trigger_deactivate()
    text = node.until("black_box_written")
    (folder,) = (tmp_path / "box").glob("*-latched_stop")
    assert str(folder) in text
    with open_bag(folder / BAG) as bag:
        assert bag.read_through().intact


def test_a_gate_that_falls_silent_is_a_trip(node: Saying) -> None:
    node.hear(topics.VERDICT.name, verdict(1, Mode.ACTIVE))
    assert "gate_silent" in node.until("black_box_trip")


def test_going_down_is_no_trip(node: Saying) -> None:
    node.hear(topics.VERDICT.name, verdict(1, Mode.ACTIVE))
    node.node.trigger_deactivate()
    node.hear(topics.EXECUTED.name, executed(2, True))
    node.hear(topics.EVENTS.name, event("node_lost", "text"))
    assert node.said == []


def test_messages_that_cannot_be_read_do_not_stop_it(node: Saying) -> None:
    node.hear(topics.VERDICT.name, b"\x00")
    node.hear(topics.EVENTS.name, event("node_lost", "text"))
    assert "node_lost" in node.until("black_box_trip")


def test_what_a_killed_process_left_is_said_at_the_next_start(tmp_path: Path, domain: int) -> None:
    (tmp_path / "box" / "20260101T000000Z-watchdog.partial").mkdir(parents=True)
    rclpy.init(
        args=["--ros-args", "-p", f"folder:={tmp_path / 'box'}", "-p", "wait_for_match:=false"],
        domain_id=domain,
    )
    try:
        made = black_box.BlackBoxNode()
        saying = Saying(made)
        made.trigger_configure()
        assert [kind for kind, _ in saying.said] == ["black_box_partial"]
        made.destroy_node()
    finally:
        rclpy.try_shutdown()
