"""The shim before Isaac Sim's bridge: the bridge's joint states and the gate's twist, each in the other's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from tether_ros.executor import DrainingExecutor
from tether_world.isaac_sim_shim import IsaacSimShim

from tether import topics
from tether.codec import convert, decode, encode, message, sensors
from tether.contracts import Command, Source
from tether.robot.roles import COMMAND_JOINTS
from tether.topics import Topic

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

PATIENCE_S = 60.0
HEARD = (topics.JOINT_STATES, topics.BASE_TWIST, topics.EXECUTED, topics.EVENTS)


class Bench:
    """The shim, and a node of the test's on the other end of all its topics."""

    def __init__(self, domain: int) -> None:
        words = ["--ros-args", "-p", "wait_for_match:=false"]
        rclpy.init(args=words, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.shim = IsaacSimShim()
        self.tester = rclpy.create_node("tester")
        self._executor = DrainingExecutor(lambda: None)
        for node in (self.shim, self.tester):
            self._executor.add_node(node)
        self.said: dict[Topic, list[Any]] = {topic: [] for topic in HEARD}
        for topic in HEARD:
            self._hear(topic)
        assert self.shim.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert self.shim.trigger_activate() == TransitionCallbackReturn.SUCCESS
        told = (topics.ALL_JOINT_STATES, topics.JOINT_COMMAND, topics.CMD_VEL)
        self._publishers = {t: self.tester.create_publisher(qos.message_class(t), t.name, _profile(t)) for t in told}
        self.until(lambda: all(p.get_subscription_count() for p in self._publishers.values()))

    def _hear(self, topic: Topic) -> None:
        kept = self.said[topic]

        def keep(raw: bytes) -> None:
            kept.append(decode(raw, topic.type))

        self.tester.create_subscription(qos.message_class(topic), topic.name, keep, _profile(topic), raw=True)

    def tell(self, topic: Topic, what: Any) -> None:
        self._publishers[topic].publish(encode(what))

    def until(self, is_so: Callable[[], Any]) -> Any:
        end_s = time.monotonic() + PATIENCE_S
        while not (value := is_so()):
            assert time.monotonic() < end_s, "not within the patience"
            self._executor.spin_once(timeout_sec=0.02)
        return value

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=5.0)
        self.shim.destroy_node()
        self.tester.destroy_node()
        rclpy.shutdown()


def _profile(topic: Topic) -> Any:
    return qos.publisher_qos(topic)


@pytest.fixture
def bench(domain: int) -> Iterator[Bench]:
    made = Bench(domain)
    yield made
    made.close()


def joint_states(names: list[str], stamp_ns: int) -> Any:
    values = np.arange(1.0, len(names) + 1.0)
    header = sensors.header_message(stamp_ns, "")
    return message("sensor_msgs/msg/JointState")(header, names, values, -values, np.zeros(0))


def test_commanded_joints_are_picked_out_by_name_and_keep_their_stamp(bench: Bench) -> None:
    names = ["base_x", *reversed(COMMAND_JOINTS), "wheel_left_joint"]
    bench.tell(topics.ALL_JOINT_STATES, joint_states(names, 5_000_000_000))
    msg = bench.until(lambda: bench.said[topics.JOINT_STATES])[0]
    assert tuple(msg.name) == COMMAND_JOINTS
    assert msg.position.tolist() == [names.index(name) + 1.0 for name in COMMAND_JOINTS]
    assert msg.velocity.tolist() == [-(names.index(name) + 1.0) for name in COMMAND_JOINTS]
    assert convert.to_ns(msg.header.stamp) == 5_000_000_000


def test_joint_states_that_lack_a_joint_are_refused_by_its_name(bench: Bench) -> None:
    bench.tell(topics.ALL_JOINT_STATES, joint_states(list(COMMAND_JOINTS[1:]), 1))
    bench.until(lambda: [event for event in bench.said[topics.EVENTS] if COMMAND_JOINTS[0] in event.text])
    assert not bench.said[topics.JOINT_STATES]


def test_base_gets_the_gates_twist_and_stands_still_once_commands_stop(bench: Bench) -> None:
    zero = np.zeros(len(COMMAND_JOINTS))
    twist = np.array([0.1, -0.2, 0.3])
    command = Command(0, 7_000_000_000, 0, Source.GATE, COMMAND_JOINTS, zero, zero, twist)
    sent = bench.said[topics.BASE_TWIST]

    def moving_ones() -> list[Any]:
        # again and again, as the gate does: on a busy machine the watchdog may be quicker than the first one
        bench.tell(topics.JOINT_COMMAND, sensors.joint_command_message(command))
        bench.tell(topics.CMD_VEL, sensors.twist_message(command))
        return [m for m in sent if m.linear.x != 0.0]

    moving = bench.until(moving_ones)[0]
    assert (moving.linear.x, moving.linear.y, moving.angular.z) == tuple(twist)
    bench.until(lambda: sent[-1].linear.x == 0.0)
    executed = bench.said[topics.EXECUTED]
    bench.until(lambda: [m for m in executed if m.watchdog_stop])
    assert {(tuple(m.base_twist.tolist()), m.watchdog_stop) for m in executed} <= {
        (tuple(twist.tolist()), False),
        ((0.0, 0.0, 0.0), True),
    }
