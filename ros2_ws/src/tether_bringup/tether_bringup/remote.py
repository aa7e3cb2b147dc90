"""Reaches lifecycle nodes through their services; the manager's Lineup decides what to ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from lifecycle_msgs.msg import State as StateMessage
from lifecycle_msgs.msg import Transition as TransitionMessage
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from tether.launch.lifecycle import Answer, State, Transition

_POLL_S = 0.01
_LOST_ANSWER_S = 1.0
_STATES = {
    StateMessage.PRIMARY_STATE_UNCONFIGURED: State.UNCONFIGURED,
    StateMessage.PRIMARY_STATE_INACTIVE: State.INACTIVE,
    StateMessage.PRIMARY_STATE_ACTIVE: State.ACTIVE,
    StateMessage.PRIMARY_STATE_FINALIZED: State.FINALIZED,
}
_TRANSITIONS = {
    Transition.CONFIGURE: TransitionMessage(id=TransitionMessage.TRANSITION_CONFIGURE),
    Transition.ACTIVATE: TransitionMessage(id=TransitionMessage.TRANSITION_ACTIVATE),
    Transition.DEACTIVATE: TransitionMessage(id=TransitionMessage.TRANSITION_DEACTIVATE),
    # the id of shutting down depends on the state it starts from, the label does not
    Transition.SHUTDOWN: TransitionMessage(label="shutdown"),
}
_FLAPPING_S = 2.0
"""For so long a node that is coming up may seem to be gone: on a busy machine discovery is not done at once."""


class _Absence:
    """Tells a node that has gone from one whose services discovery loses for a moment while it still finds them."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._since_s: float | None = None

    def lasts(self, absent: bool) -> bool:
        """Return whether it has been absent, without a break, for longer than it may."""
        if not absent:
            self._since_s = None
            return False
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        return now_s - self._since_s >= self._longest_s


class ServiceRemote:
    """`tether.launch.lifecycle.Remote` over `<node>/change_state` and `<node>/get_state`.

    Another thread must spin `node`. `is_stopping` ends interruptible waits.
    """

    def __init__(self, node: Node, names: Sequence[str], is_stopping: Callable[[], bool]) -> None:
        """Make two clients a name."""
        self._node = node
        self._is_stopping = is_stopping
        self._change = {name: node.create_client(ChangeState, f"{name}/change_state") for name in names}
        self._state = {name: node.create_client(GetState, f"{name}/get_state") for name in names}

    def await_offer(self, node: str, timeout_s: float) -> Answer:
        """Wait until both services are matched."""
        return self._await(lambda: self.is_offered(node), timeout_s, interruptible=True)

    def is_offered(self, node: str) -> bool:
        """Return whether both services are matched now."""
        return bool(self._change[node].service_is_ready() and self._state[node].service_is_ready())

    def change(self, node: str, transition: Transition, timeout_s: float, interruptible: bool) -> Answer:
        """Ask for a transition and wait for the answer.

        An answer can get lost while discovery is still under way at the node's side; a node that is silent
        and yet in the state it was asked for has done what it was asked for.
        """
        request = ChangeState.Request(transition=_TRANSITIONS[transition])
        client = self._change[node]
        future = client.call_async(request)
        missed = _Absence(_FLAPPING_S if interruptible else 0.0)
        answer = self._await(lambda: future.done() or missed.lasts(not self.is_offered(node)), timeout_s, interruptible)
        if future.done():
            response = future.result()
            return Answer.DONE if response is not None and response.success else Answer.REFUSED
        client.remove_pending_request(future)
        if answer is Answer.DONE:
            return Answer.GONE
        if answer is Answer.SILENT and interruptible:
            reached = self.ask_states([node], _LOST_ANSWER_S).get(node) is transition.goal
            return Answer.DONE if reached else Answer.SILENT
        return answer

    def ask_states(self, nodes: Sequence[str], timeout_s: float) -> dict[str, State]:
        """Ask all at once and collect what comes in time."""
        futures: dict[str, tuple[Client, Future]] = {}
        for name in nodes:
            client = self._state[name]
            futures[name] = client, client.call_async(GetState.Request())
        self._await(lambda: all(future.done() for _, future in futures.values()), timeout_s, interruptible=True)
        states = {}
        for name, (client, future) in futures.items():
            response = future.result() if future.done() else None
            if response is None:
                client.remove_pending_request(future)
            else:
                states[name] = _STATES.get(response.current_state.id, State.CHANGING)
        return states

    def _await(self, is_done: Callable[[], bool], timeout_s: float, interruptible: bool) -> Answer:
        deadline = time.monotonic() + timeout_s
        while not is_done():
            if interruptible and self._is_stopping():
                return Answer.INTERRUPTED
            if time.monotonic() >= deadline:
                return Answer.SILENT
            time.sleep(_POLL_S)
        return Answer.DONE
