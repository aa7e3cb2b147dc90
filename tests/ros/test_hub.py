"""What nodes of one process hand over to each other: every message, in order, and never inside another's callback."""

from __future__ import annotations

from tether_bringup import composed
from tether_ros.hub import Hub

from tether import topics


def test_every_message_reaches_all_takers_in_the_order_sent() -> None:
    hub = Hub([topics.DECISION])
    heard: list[tuple[str, bytes]] = []
    for name in ("bridge", "executor"):
        hub.add_taker(topics.DECISION, lambda raw, name=name: heard.append((name, raw)))
    hub.send(topics.DECISION, b"1")
    hub.send(topics.DECISION, b"2")
    assert heard == []
    hub.deliver()
    assert heard == [("bridge", b"1"), ("executor", b"1"), ("bridge", b"2"), ("executor", b"2")]


def test_what_a_taker_sends_is_handed_over_after_it_has_returned() -> None:
    hub = Hub([topics.FUSED_STATE, topics.POLICY_OUTPUT])
    order: list[str] = []

    def policy(raw: bytes) -> None:
        order.append("policy begins")
        hub.send(topics.POLICY_OUTPUT, raw)
        order.append("policy ends")

    hub.add_taker(topics.FUSED_STATE, policy)
    hub.add_taker(topics.POLICY_OUTPUT, lambda raw: order.append("bridge"))
    hub.send(topics.FUSED_STATE, b"")
    hub.deliver()
    assert order == ["policy begins", "policy ends", "bridge"]


def test_topics_that_others_publish_are_not_carried() -> None:
    hub = Hub([topics.DECISION])
    heard: list[bytes] = []
    hub.add_taker(topics.IMU, heard.append)
    hub.send(topics.IMU, b"from the world")
    hub.deliver()
    assert heard == []
    assert not hub.carries(topics.IMU)


def test_a_taker_taken_back_hears_no_more_and_others_still_do() -> None:
    hub = Hub([topics.DECISION])
    first: list[bytes] = []
    second: list[bytes] = []
    remove = hub.add_taker(topics.DECISION, first.append)
    hub.add_taker(topics.DECISION, second.append)
    remove()
    hub.send(topics.DECISION, b"1")
    hub.deliver()
    assert (first, second) == ([], [b"1"])
    assert hub.takers(topics.DECISION) == 1


def test_the_hub_knows_who_sends() -> None:
    hub = Hub([topics.DECISION])
    remove = hub.add_sender(topics.DECISION)
    assert hub.senders(topics.DECISION) == 1
    remove()
    assert hub.senders(topics.DECISION) == 0


def test_composed_hands_over_nothing_that_the_world_or_the_gate_publishes() -> None:
    outside = {
        *(topics.IMU, topics.IMAGE, topics.CAMERA_INFO, topics.JOINT_STATES, topics.EPISODE_START, topics.TICK_PLAN),
        *(topics.EXECUTED, topics.JOINT_COMMAND, topics.CMD_VEL, topics.VERDICT, topics.TRUTH, topics.CLOCK),
    }
    assert not outside & set(composed.HANDED_OVER)
