"""The graph's executor: everything that is there after one wait, in order, and nothing lost that rclpy's would do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import Trigger
from tether_ros.executor import AT_ONCE, DrainingExecutor

pytestmark = [pytest.mark.ros, pytest.mark.timeout(120)]

PATIENCE_S = 30.0
MANY = 3 * AT_ONCE
DEPTH = QoSProfile(depth=MANY)


class Rig:
    """One node in the executor."""

    def __init__(self, domain: int) -> None:
        rclpy.init(args=[], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.calls = 0
        self.executor = DrainingExecutor(self._count)
        self.node = rclpy.create_node("rig")
        self.executor.add_node(self.node)

    def _count(self) -> None:
        self.calls += 1

    def close(self) -> None:
        self.executor.shutdown(timeout_sec=1.0)
        self.node.destroy_node()
        rclpy.try_shutdown()

    def matched_publisher(self, depth: QoSProfile = DEPTH) -> Any:
        publisher = self.node.create_publisher(String, "words", depth)
        self.until(lambda: publisher.get_subscription_count() > 0, "a subscription is matched")
        return publisher

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s"
            self.executor.spin_once(timeout_sec=0.02)


@pytest.fixture
def rig(domain: int) -> Iterator[Rig]:
    made = Rig(domain)
    yield made
    made.close()


def test_what_waits_is_taken_in_order_after_few_waits(rig: Rig) -> None:
    heard: list[str] = []
    rig.node.create_subscription(String, "words", lambda msg: heard.append(msg.data), DEPTH)
    publisher = rig.matched_publisher()
    for number in range(MANY):
        publisher.publish(String(data=str(number)))
    turns = 0
    while len(heard) < MANY and turns < MANY:
        rig.executor.spin_once(timeout_sec=PATIENCE_S)
        turns += 1
    assert heard == [str(number) for number in range(MANY)]
    assert turns <= MANY / 4
    assert rig.calls == MANY


def test_timers_have_their_turn_while_messages_keep_coming(rig: Rig) -> None:
    order: list[str] = []

    def echo(msg: String) -> None:
        order.append("message")
        publisher.publish(msg)  # there is always one more

    rig.node.create_subscription(String, "words", echo, DEPTH)
    publisher = rig.matched_publisher()
    rig.node.create_timer(0.001, lambda: order.append("timer"))
    publisher.publish(String(data="again"))
    rig.until(lambda: order.count("timer") >= 5 and order.count("message") >= 5, "both are called")
    longest = max(len(run) for run in "".join(word[0] for word in order).split("t"))
    assert longest <= 4 * AT_ONCE


def test_a_subscription_that_a_callback_destroys_hears_no_more(rig: Rig) -> None:
    heard: list[str] = []

    def once(msg: String) -> None:
        heard.append(msg.data)
        rig.node.destroy_subscription(subscription)

    subscription = rig.node.create_subscription(String, "words", once, DEPTH)
    publisher = rig.matched_publisher()
    for number in range(5):
        publisher.publish(String(data=str(number)))
    rig.until(lambda: heard, "one is heard")
    for _ in range(5):
        rig.executor.spin_once(timeout_sec=0.02)
    assert heard == ["0"]


def test_a_timer_destroyed_by_one_of_the_same_turn_is_not_called(rig: Rig) -> None:
    called: list[str] = []
    timers: dict[str, Any] = {}

    def call(name: str, other: str) -> None:
        called.append(name)
        rig.node.destroy_timer(timers[name])
        rig.node.destroy_timer(timers[other])

    timers["a"] = rig.node.create_timer(0.01, lambda: call("a", "b"))
    timers["b"] = rig.node.create_timer(0.01, lambda: call("b", "a"))
    time.sleep(0.05)  # both are due
    rig.until(lambda: called, "one is called")
    for _ in range(5):
        rig.executor.spin_once(timeout_sec=0.02)
    assert len(called) == 1


def test_entities_that_come_while_it_spins_are_served(rig: Rig) -> None:
    answered: list[str] = []

    def answer(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        answered.append("asked")
        return response

    client = rig.node.create_client(Trigger, "ask")
    rig.executor.spin_once(timeout_sec=0.01)
    rig.node.create_service(Trigger, "ask", answer)
    rig.until(client.service_is_ready, "the service is found")
    future = client.call_async(Trigger.Request())
    rig.until(future.done, "the answer comes, which is among what is rare")
    assert answered == ["asked"]


def test_an_incompatible_publisher_is_still_reported(rig: Rig) -> None:
    reports: list[Any] = []
    rig.node.create_subscription(
        String,
        "words",
        lambda msg: None,
        QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE),
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=reports.append, use_default_callbacks=False),
    )
    rig.node.create_publisher(String, "words", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    rig.until(lambda: reports, "the event is reported")


def test_what_a_callback_raises_ends_the_spin(rig: Rig) -> None:
    def break_down() -> None:
        raise ArithmeticError("of the callback's own")

    rig.node.create_timer(0.001, break_down)
    with pytest.raises(ArithmeticError, match="of the callback's own"):
        rig.until(lambda: False, "it raises")


def test_a_context_that_is_shut_down_ends_the_spin(rig: Rig) -> None:
    rig.executor.spin_once(timeout_sec=0.0)
    rclpy.shutdown()
    with pytest.raises(ExternalShutdownException):
        rig.executor.spin_once(timeout_sec=PATIENCE_S)
