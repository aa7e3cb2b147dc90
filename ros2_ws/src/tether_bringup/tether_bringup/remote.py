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
_ASK_S, _SILENCE_S = 1.0, 2.0
"""After so long without an answer a node is asked for its state, and has so long to tell it."""
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

_HALF_S = 5.0
"""A service known for so long is asked, ready or not, see `ServiceRemote.is_offered`; what gets lost is asked again."""


class _Lasting:
    """Tells what lasts from what discovery makes seem so for a moment."""

    def __init__(self, long_s: float) -> None:
        self._long_s = long_s
        self._since_s: float | None = None

    def lasts(self, is_so: bool) -> bool:
        """Return whether it has been so, without a break, for that long."""
        if not is_so:
            self._since_s = None
            return False
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        return now_s - self._since_s >= self._long_s


class _Asked:
    """A request that may be made more than once, and the answers to it."""

    def __init__(self, client: Client, request: ChangeState.Request) -> None:
        self._client = client
        self._request = request
        self._futures: list[Future] = []
        self.again()

    def again(self) -> None:
        """Send the request."""
        self._futures.append(self._client.call_async(self._request))

    def was_granted(self) -> bool | None:
        """None before the first answer. One that was granted counts: the same request is refused after it."""
        answers = [future.result() for future in self._futures if future.done()]
        return any(answer is not None and answer.success for answer in answers) if answers else None

    @property
    def is_repeated(self) -> bool:
        """Whether the request was sent more than once."""
        return len(self._futures) > 1

    def forget(self) -> None:
        """Wait for no more answers."""
        for future in self._futures:
            self._client.remove_pending_request(future)


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
        """Wait until both services are matched, or have been known for _HALF_S and are not called ready."""
        known = _Lasting(_HALF_S)
        both = self._change[node], self._state[node]
        return self._await(
            lambda: all(client.service_is_ready() for client in both) or known.lasts(self.is_offered(node)),
            timeout_s,
            interruptible=True,
        )

    def is_alone(self, node: str) -> bool:
        """Return whether no more than one node offers to change its state under that name."""
        name = self._change[node].service_name
        answer = self._await(lambda: self._node.count_services(name) <= 1, _FLAPPING_S, interruptible=True)
        return answer is not Answer.SILENT

    def is_offered(self, node: str) -> bool:
        """Return whether somebody offers both services now.

        Not whether they are ready: of a process that was killed, DDS may know half a service for as long as its lease
        lasts, 20 s, and while it knows such a half it calls no service of that name ready, not even a living node's.
        """
        return all(self._node.count_services(client[node].service_name) > 0 for client in (self._change, self._state))

    def change(self, node: str, transition: Transition, timeout_s: float, interruptible: bool) -> Answer:
        """Ask for a transition and wait for the answer.

        A request or its answer can get lost while discovery is still under way at the node's side. A node that is
        silent and yet in the state it was asked for has done it; one that still stands where it stood is asked again.
        """
        asked = _Asked(self._change[node], ChangeState.Request(transition=_TRANSITIONS[transition]))
        missed = _Lasting(_FLAPPING_S if interruptible else 0.0)
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                left_s = deadline - time.monotonic()
                answer = self._await(
                    lambda: asked.was_granted() is not None or missed.lasts(not self.is_offered(node)),
                    min(left_s, _SILENCE_S) if interruptible else left_s,
                    interruptible,
                )
                granted = asked.was_granted()
                if granted is not None:
                    return Answer.DONE if granted or self._was_done_before(asked, node, transition) else Answer.REFUSED
                if answer is Answer.DONE:
                    return Answer.GONE
                if answer is not Answer.SILENT or not interruptible:
                    return answer
                state = self.ask_states([node], _ASK_S).get(node, State.CHANGING)
                if state is transition.goal:
                    return Answer.DONE
                if time.monotonic() >= deadline:
                    return Answer.SILENT
                if state is not State.CHANGING:
                    asked.again()
        finally:
            asked.forget()

    def _was_done_before(self, asked: _Asked, node: str, transition: Transition) -> bool:
        """Whether a refusal is that of a repeated request, because the first was granted and its answer got lost."""
        return asked.is_repeated and self.ask_states([node], _ASK_S).get(node) is transition.goal

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
