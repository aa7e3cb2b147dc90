"""A transition that an exception ends is told with its traceback, undoes what it began, and leaves the node usable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import State
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from tether_ros.node import StageNode

from tether import topics
from tether.lockstep import TickInputs

pytestmark = pytest.mark.ros


class Stumbling(StageNode):
    """Its stage cannot be built, or not started, by an error that nobody has thought of."""

    def __init__(self) -> None:
        super().__init__("stumbling")
        self.stumbles: str | None = None

    def build(self) -> None:
        self.outlet(topics.DECISION)
        if self.stumbles == "build":
            raise TypeError("no such thing")

    def start_live(self) -> None:
        if self.stumbles == "start":
            raise TypeError("no such thing")

    def on_episode(self, start: Any) -> None:
        """Not used."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Not used."""

    def senders(self) -> int:
        return self.count_publishers(topics.DECISION.name)


@pytest.fixture
def node(domain: int) -> Iterator[Stumbling]:
    """The node, unconfigured, alone in its domain."""
    words = ["--ros-args", "-p", "wait_for_match:=false"]
    rclpy.init(args=words, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    made = Stumbling()
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.shutdown()


@pytest.mark.parametrize(("stumbles", "transition"), [("build", "on_configure"), ("start", "on_activate")])
def test_an_exception_of_a_transition_is_told_and_undone(
    node: Stumbling, capfd: pytest.CaptureFixture[str], stumbles: str, transition: str
) -> None:
    node.stumbles = stumbles
    outcomes = [node.trigger_configure()]
    if stumbles == "start":
        outcomes.append(node.trigger_activate())
    assert outcomes[-1] == TransitionCallbackReturn.ERROR
    said = capfd.readouterr().err
    assert f"{transition} failed" in said
    assert "TypeError: no such thing" in said
    assert 'raise TypeError("no such thing")' in said, "where it happened"
    assert not node.active
    assert node.senders() == 0
    assert node._state_machine.current_state[0] == State.PRIMARY_STATE_UNCONFIGURED

    node.stumbles = None
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    assert node.active
