"""Nobody is activated before those are matched that must hear it: real participants, some of which come late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from tether_ros import matching, qos
from tether_ros.matching import LISTENERS, LISTENERS_IN_LOCKSTEP, Surroundings
from tether_ros.node import StageNode

from tether import topics
from tether.lockstep import TickInputs
from tether.topics import Topic

pytestmark = pytest.mark.ros


class Sender(StageNode):
    """Sends /reward, which may go unheard, and /decision."""

    def build(self) -> None:
        self.optional(self.outlet(topics.REWARD))
        self.outlet(topics.DECISION)

    def on_episode(self, start: Any) -> None:
        """Not used."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Not used."""


class Others:
    """Nodes of a participant of their own."""

    def __init__(self, domain: int) -> None:
        self._context = Context()
        rclpy.init(args=[], context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self._nodes: list[Node] = []

    def hear(self, name: str, *heard: Topic, profile: QoSProfile | None = None) -> None:
        node = Node(name, context=self._context)
        self._nodes.append(node)
        for topic in heard:
            asked = profile or qos.subscriber_qos(topic, must_not_lose=True)
            node.create_subscription(qos.message_class(topic), topic.name, lambda msg: None, asked)

    def close(self) -> None:
        for node in self._nodes:
            node.destroy_node()
        rclpy.try_shutdown(context=self._context)


@pytest.fixture
def others(domain: int) -> Iterator[Others]:
    made = Others(domain)
    yield made
    made.close()


@pytest.fixture
def make_sender(domain: int) -> Iterator[Callable[..., Sender]]:
    made: list[Sender] = []

    def make(*peers: str) -> Sender:
        words = ["--ros-args", *(("-p", f"peers:=[{', '.join(peers)}]") if peers else ())]
        rclpy.init(args=words, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        made.append(Sender("opd_bridge"))
        assert made[0].on_configure(None) is TransitionCallbackReturn.SUCCESS
        return made[0]

    yield make
    for node in made:
        node.destroy_node()
    rclpy.try_shutdown()


def test_a_recorder_that_comes_late_is_waited_for(make_sender, others) -> None:
    others.hear("primitive_executor", topics.DECISION)
    sender = make_sender("primitive_executor", "recorder")
    came: list[float] = []

    def come() -> None:
        time.sleep(1.0)
        came.append(time.monotonic())
        others.hear("recorder", topics.DECISION, topics.REWARD, topics.EVENTS)

    late = threading.Thread(target=come)
    late.start()
    assert sender.on_activate(None) is TransitionCallbackReturn.SUCCESS
    assert came, "activated before the recorder was there"
    late.join()


def test_a_peer_that_never_hears_is_named(make_sender, others, monkeypatch, capfd) -> None:
    monkeypatch.setattr(matching, "MATCH_DEADLINE_S", 1.0)
    others.hear("primitive_executor", topics.DECISION)
    others.hear("recorder", topics.DECISION, topics.EVENTS)
    sender = make_sender("primitive_executor", "recorder")
    assert sender.on_activate(None) is TransitionCallbackReturn.FAILURE
    said = capfd.readouterr().err
    assert "/reward is not heard by recorder" in said
    assert "/decision" not in said and "/events" not in said


def test_a_listener_that_can_never_hear_keeps_nobody_waiting(make_sender, others) -> None:
    others.hear("primitive_executor", topics.DECISION)
    asks_for_more = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    others.hear("console", topics.REWARD, topics.DECISION, profile=asks_for_more)
    sender = make_sender()
    deadline = time.monotonic() + 60.0
    while sender.count_subscribers(topics.DECISION.name) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert sender.on_activate(None) is TransitionCallbackReturn.SUCCESS


def test_who_must_hear_is_who_is_there_and_gets_it_over_the_wire() -> None:
    composed = frozenset({"imu_ingest", "fusion", "primitive_executor"})
    around = Surroundings(composed | {"safety_supervisor", "recorder"}, composed)
    assert around.must_hear(topics.IMU_BATCH, handed_over=True) == {"safety_supervisor", "recorder"}
    assert around.must_hear(topics.JOINT_STATES, False) == {
        "fusion",
        "primitive_executor",
        "safety_supervisor",
        "recorder",
    }
    assert around.must_hear(topics.HEARTBEAT, False) == frozenset()
    assert Surroundings().must_hear(topics.IMU, False) == frozenset()
    assert around.must_hear(topics.TICK_PLAN, False) == {"recorder"}
    ticked = Surroundings(around.peers, composed, lockstep=True).must_hear(topics.TICK_PLAN, False)
    assert ticked == around.peers


def test_everybody_who_is_waited_for_takes_the_topic() -> None:
    assert all(names <= LISTENERS_IN_LOCKSTEP[topic] for topic, names in LISTENERS.items())
