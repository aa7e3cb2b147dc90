"""Who judges how long nothing has come looks first: the judge's own delay is not taken for the sender's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from tether_ros.executor import DrainingExecutor
from tether_ros.node import StageNode
from tether_world.world import WorldNode

from tether import topics
from tether.assembly import task
from tether.codec import convert, decode, encode, sensors
from tether.contracts import TICK_NS, Command, Source
from tether.robot.roles import COMMAND_JOINTS
from tether.topics import Topic

pytestmark = [pytest.mark.ros, pytest.mark.realtime, pytest.mark.timeout(180)]

PATIENCE_S = 60.0
TIMEOUT_S = 0.1
"""The watchdog's of every profile that ships."""
START = np.array([task("pick").start[name] for name in COMMAND_JOINTS])


class Bench:
    """A node under test, spun here, and the other end of its topics in a context and on threads of its own."""

    def __init__(self, domain: int, make: Callable[[], StageNode], *words: str) -> None:
        args = ["--ros-args", "-p", "wait_for_match:=false", *(w for word in words for w in ("-p", word))]
        rclpy.init(args=args, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = make()
        self.executor = DrainingExecutor(lambda: None)
        self.executor.add_node(self.node)
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context, domain_id=domain)
        self.other = rclpy.create_node("other", context=self._context)

    def activate(self) -> None:
        assert self.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert self.node.trigger_activate() == TransitionCallbackReturn.SUCCESS

    def publisher(self, topic: Topic) -> Any:
        return self.other.create_publisher(qos.message_class(topic), topic.name, qos.publisher_qos(topic))

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end_s, f"{what}: not within {PATIENCE_S:g} s"
            self.executor.spin_once(timeout_sec=0.02)

    def close(self) -> None:
        self.executor.shutdown(timeout_sec=5.0)
        self.node.destroy_node()
        self.other.destroy_node()
        rclpy.shutdown(context=self._context)
        rclpy.try_shutdown()


@pytest.fixture
def bench(domain: int) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*arguments: Any) -> Bench:
        made.append(Bench(domain, *arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Gate:
    """Commands to stay where the arm is, both halves, every tick, as the gate publishes them."""

    def __init__(self, bench: Bench) -> None:
        self._joints, self._twist = (bench.publisher(t) for t in (topics.JOINT_COMMAND, topics.CMD_VEL))
        self._over = threading.Event()
        self.sent_s: list[float] = []

    def matched(self) -> bool:
        return all(p.get_subscription_count() for p in (self._joints, self._twist))

    def _run(self) -> None:
        zero = np.zeros(len(COMMAND_JOINTS))
        tick = 0
        while not self._over.wait(TICK_NS * 1e-9):
            tick += 1
            command = Command(tick, time.time_ns(), 0, Source.GATE, COMMAND_JOINTS, START, zero, np.zeros(3))
            self._joints.publish(encode(sensors.joint_command_message(command)))
            self._twist.publish(encode(sensors.twist_message(command)))
            self.sent_s.append(time.monotonic())

    @contextmanager
    def steering(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


class SlowWorld(WorldNode):
    """The world on a machine where a tick takes half as long again as it should, so that it catches up all the time."""

    tick_s = TIMEOUT_S / 7

    def _step(self) -> Any:
        time.sleep(self.tick_s)
        return super()._step()


class SlowerWorld(SlowWorld):
    """Each tick takes longer than commands may stay away."""

    tick_s = 2 * TIMEOUT_S


@pytest.mark.parametrize(("make", "ticks"), [(SlowWorld, 100), (SlowerWorld, 20)])
def test_a_world_that_is_busy_does_not_take_its_own_delay_for_a_silent_gate(
    bench: Callable[..., Bench], make: type[SlowWorld], ticks: int
) -> None:
    rig = bench(make, "policy:=classic", "profile:=ideal", "episodes:=100", "mode:=realtime")
    executed: list[tuple[float, Any]] = []

    def hear(raw: bytes) -> None:
        executed.append((time.monotonic(), decode(raw, topics.EXECUTED.type)))

    rig.activate()
    rig.node.create_subscription(
        qos.message_class(topics.EXECUTED), topics.EXECUTED.name, hear, qos.publisher_qos(topics.EXECUTED), raw=True
    )
    gate = Gate(rig)
    rig.until(gate.matched, "the world hears the gate")
    with gate.steering():
        rig.until(lambda: len(executed) > ticks, f"{ticks} ticks")
    sent = np.array(gate.sent_s)
    stops = [at_s for at_s, msg in executed if msg.watchdog_stop]
    if np.diff(sent).max() < TIMEOUT_S / 2:  # a gate that the machine held up is silent indeed
        assert not [at_s for at_s in stops if at_s < sent[-1]]
    rig.until(lambda: executed[-1][1].watchdog_stop, "the watchdog, once commands stay away")


class Judge(StageNode):
    """Counts in each turn of its timer what has come since the one before."""

    def __init__(self) -> None:
        super().__init__("judge")
        self.heard = 0
        self.seen: list[int] = []

    def build(self) -> None:
        self.inlet(topics.PROPOSED, self._on_proposed)

    def on_episode(self, start: Any) -> None:
        pass

    def on_tick(self, inputs: Any) -> None:
        pass

    def start_live(self) -> None:
        self.every(0.01, self._judge)

    def _on_proposed(self, msg: Any) -> None:
        self.heard += 1

    def _judge(self) -> None:
        self.take_arrived(topics.PROPOSED, topics.HEARTBEAT)
        self.seen.append(self.heard)


def test_what_came_before_a_turn_is_read_before_it_judges_and_read_once(bench: Callable[..., Bench]) -> None:
    rig = bench(Judge, "mode:=realtime")
    rig.activate()
    judge = rig.node
    assert isinstance(judge, Judge)
    publisher = rig.publisher(topics.PROPOSED)
    rig.until(lambda: publisher.get_subscription_count() > 0, "the judge is matched")
    raw = encode(convert.proposed_message(None, 0, 1, 1, [], 1))
    publisher.publish(raw)
    rig.until(lambda: judge.heard == 1, "the first one")
    for _ in range(5):
        publisher.publish(raw)
    publisher.wait_for_all_acked(rclpy.duration.Duration(seconds=PATIENCE_S))
    time.sleep(0.1)  # the timer is due, and what was sent has come
    seen = len(judge.seen)
    rig.until(lambda: len(judge.seen) > seen, "the next turn")
    assert judge.seen[seen] == 6, "all of it before the turn"
    rig.until(lambda: len(judge.seen) > seen + 3, "some turns more")
    assert judge.seen[-1] == 6, "and none of it twice"
