"""A node that waits to be heard gives way to whoever wants something else of it: a real process, real requests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from tether_ros import qos

from tether import topics

pytestmark = pytest.mark.ros

PATIENCE_S = 50.0
"""Well below the time limit of a test: what was said so far is then told, and the next test runs."""
SENDER = """
import sys
from tether_ros import matching
from tether_ros.node import StageNode
from tether_ros.process import run
from tether import topics

matching.MATCH_DEADLINE_S = 3600.0

class Sender(StageNode):
    def __init__(self):
        super().__init__("sender")
    def build(self):
        self.outlet(topics.DECISION)
    def on_episode(self, start):
        pass
    def on_tick(self, inputs):
        pass
    def _given_up(self):
        why = super()._given_up()
        sys.stderr.write(f"waits, gives up: {why!r}\\n")
        sys.stderr.flush()
        return why

sys.exit(run([Sender]))
"""


class Caller:
    """Asks the process for transitions, and may hear what it sends."""

    def __init__(self, domain: int, log: Path) -> None:
        self._log = log
        self._context = Context()
        rclpy.init(args=[], context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("caller", context=self._context)
        self._client = self._node.create_client(ChangeState, "/sender/change_state")
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        with log.open("wb") as out:
            env = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
            self.process = subprocess.Popen([sys.executable, "-c", SENDER], env=env, stderr=out)

    def ask(self, transition: int) -> Future:
        assert self._client.wait_for_service(PATIENCE_S)
        return self._client.call_async(ChangeState.Request(transition=Transition(id=transition)))

    def hear(self) -> None:
        profile = qos.subscriber_qos(topics.DECISION, must_not_lose=True)
        self._node.create_subscription(
            qos.message_class(topics.DECISION), topics.DECISION.name, lambda m: None, profile
        )

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def await_said(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.said().count(text) < times:
            assert time.monotonic() < deadline, f"exit code {self.process.poll()}; said: {self.said()!r}"
            time.sleep(0.02)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._executor.shutdown(timeout_sec=5.0)
        self._thread.join(timeout=5.0)
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return


def answer(future: Future) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not future.done():
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.02)
    return future.result().success


@pytest.fixture
def waiting(domain: int, tmp_path: Path) -> Iterator[tuple[Caller, Future]]:
    """A process that is being activated and waits for somebody to hear it, for an hour if it must."""
    caller = Caller(domain, tmp_path / "log")
    try:
        assert answer(caller.ask(Transition.TRANSITION_CONFIGURE))
        activated = caller.ask(Transition.TRANSITION_ACTIVATE)
        caller.await_said("waits")
        yield caller, activated
    finally:
        caller.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_wait_and_the_process(waiting: tuple[Caller, Future], number: int) -> None:
    caller, _ = waiting
    caller.process.send_signal(number)
    assert caller.process.wait(PATIENCE_S) == 0
    assert "not activated: the process was told to go" in caller.said()


def test_a_request_to_shut_down_ends_the_wait_and_is_granted(waiting: tuple[Caller, Future]) -> None:
    caller, activated = waiting
    shut_down = caller.ask(Transition.TRANSITION_INACTIVE_SHUTDOWN)
    assert answer(shut_down)
    assert not answer(activated)
    assert caller.process.wait(PATIENCE_S) == 0


def test_a_request_to_deactivate_ends_the_wait_and_finds_the_node_where_it_wants_it(
    waiting: tuple[Caller, Future],
) -> None:
    caller, activated = waiting
    assert answer(caller.ask(Transition.TRANSITION_DEACTIVATE))
    assert not answer(activated)
    assert caller.process.poll() is None


def test_the_same_request_again_does_not_end_the_wait_and_both_are_granted(waiting: tuple[Caller, Future]) -> None:
    caller, activated = waiting
    again = caller.ask(Transition.TRANSITION_ACTIVATE)
    caller.await_said("waits", times=caller.said().count("waits") + 20)
    assert not activated.done() and not again.done()
    caller.hear()
    assert answer(activated) and answer(again)
