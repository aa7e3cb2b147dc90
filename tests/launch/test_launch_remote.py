"""How the lifecycle manager reaches nodes: over real services, in one process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2's rclpy")
pytest.importorskip("tether_msgs", reason="needs the built interfaces (make setup)")

import rclpy
from lifecycle_msgs.msg import State as StateMessage
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from tether_bringup.recorder import RecorderNode
from tether_bringup.remote import ServiceRemote

from tether.launch.lifecycle import Answer, State, Transition

pytestmark = pytest.mark.ros
PATIENCE_S = 60.0


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def watcher(domain: int) -> Iterator[Node]:
    """A node that another thread spins; its participant is not that of the nodes it looks at."""
    context = Context()
    rclpy.init(args=[], context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("watcher", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            return

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    yield node
    executor.shutdown(timeout_sec=1.0)
    thread.join(timeout=5.0)
    node.destroy_node()
    rclpy.try_shutdown(context=context)


@pytest.fixture
def make_recorder(domain: int, tmp_path) -> Iterator[Callable[[], RecorderNode]]:
    made: list[RecorderNode] = []
    arguments = ["--ros-args", "-p", f"bag:={tmp_path / 'bag'}", "-p", "mode:=lockstep"]
    rclpy.init(args=arguments, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)

    def make() -> RecorderNode:
        made.append(RecorderNode())
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()
    rclpy.try_shutdown()


def test_destroyed_node_offers_nothing_though_somebody_still_holds_it(watcher, make_recorder) -> None:
    remote = ServiceRemote(watcher, ["recorder"], lambda: False)
    node = make_recorder()
    assert remote.await_offer("recorder", PATIENCE_S) is Answer.DONE
    node.destroy_node()
    wait_for(lambda: not remote.is_offered("recorder"))
    assert node.get_name


def test_half_a_service_of_another_process_does_not_make_the_living_node_gone(
    watcher, make_recorder, domain: int
) -> None:
    """As one that was killed leaves until its lease is over; here only its ear for requests fits the manager's QoS.

    While DDS matches such a half, it calls no service of that name ready.
    """
    remote = ServiceRemote(watcher, ["recorder"], lambda: False)
    make_recorder()
    assert remote.await_offer("recorder", PATIENCE_S) is Answer.DONE
    client = watcher.create_client(GetState, "recorder/get_state")
    wait_for(client.service_is_ready)
    context = Context()
    rclpy.init(args=[], context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    other = Node("other", context=context)
    try:
        half = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        other.create_service(GetState, "recorder/get_state", lambda _, response: response, qos_profile=half)
        wait_for(lambda: not client.service_is_ready())
        assert remote.is_offered("recorder")
        assert ServiceRemote(watcher, ["recorder"], lambda: False).await_offer("recorder", PATIENCE_S) is Answer.DONE
    finally:
        other.destroy_node()
        rclpy.try_shutdown(context=context)


def test_second_node_of_a_name_is_noticed_and_its_end_too(watcher, make_recorder) -> None:
    remote = ServiceRemote(watcher, ["recorder"], lambda: False)
    make_recorder()
    assert remote.await_offer("recorder", PATIENCE_S) is Answer.DONE
    assert remote.is_alone("recorder")
    second = make_recorder()
    wait_for(lambda: not remote.is_alone("recorder"))
    second.destroy_node()
    wait_for(lambda: remote.is_alone("recorder"))


def test_transition_is_asked_for_and_the_state_told(watcher, make_recorder) -> None:
    remote = ServiceRemote(watcher, ["recorder"], lambda: False)
    executor = SingleThreadedExecutor()
    executor.add_node(make_recorder())
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        assert remote.await_offer("recorder", PATIENCE_S) is Answer.DONE
        assert remote.change("recorder", Transition.CONFIGURE, PATIENCE_S, interruptible=True) is Answer.DONE
        assert remote.change("recorder", Transition.CONFIGURE, PATIENCE_S, interruptible=True) is Answer.REFUSED
        assert remote.ask_states(["recorder"], PATIENCE_S) == {"recorder": State.INACTIVE}
    finally:
        over.set()
        thread.join()
        executor.shutdown()


class Forgetful(Node):
    """Loses the answer to the first request; the second finds the transition done, and is refused."""

    def __init__(self, context: Context) -> None:
        super().__init__("forgetful", context=context)
        self.asked = 0
        self.create_service(ChangeState, "forgetful/change_state", self._change)
        self.create_service(GetState, "forgetful/get_state", self._tell)

    def _change(self, request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
        self.asked += 1
        if self.asked == 1:
            raise LookupError("no answer")
        response.success = False
        return response

    def _tell(self, request: GetState.Request, response: GetState.Response) -> GetState.Response:
        done = self.asked > 1
        state = StateMessage.PRIMARY_STATE_INACTIVE if done else StateMessage.PRIMARY_STATE_UNCONFIGURED
        response.current_state.id = state
        return response


def test_repeat_that_is_refused_since_the_first_was_granted_is_done(watcher, domain) -> None:
    context = Context()
    rclpy.init(args=[], context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    node = Forgetful(context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            with contextlib.suppress(LookupError):
                executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    remote = ServiceRemote(watcher, ["forgetful"], lambda: False)
    try:
        assert remote.await_offer("forgetful", PATIENCE_S) is Answer.DONE
        assert remote.change("forgetful", Transition.CONFIGURE, PATIENCE_S, interruptible=True) is Answer.DONE
        assert node.asked == 2
    finally:
        over.set()
        thread.join()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown(context=context)
