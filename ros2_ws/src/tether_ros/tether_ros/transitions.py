"""What rclpy's lifecycle nodes of Jazzy leave open about their services."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import State, Transition
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn


class ChangeRequests:
    """Requests for transitions of a node: answered one by one, and seen while a transition is under way.

    rclpy raises at a transition that the state does not have, and any caller could end the node; here the answer is no.
    What is asked for while a transition runs would wait for its end; `another` lets the transition give way.
    """

    def __init__(self, node: LifecycleNode) -> None:
        """Stand between the node's service and rclpy's answer."""
        self._node = node
        self._service = node._service_change_state
        self._change = self._service.callback
        self._service.callback = self._answer
        self._asked: Any = None
        self._waiting: list[tuple[Any, Any]] = []

    def another(self) -> bool:
        """Whether another transition is asked for than the one under way; the same one asked again is none."""
        while True:
            with self._service.handle:
                request, header = self._service.handle.service_take_request(self._service.srv_type.Request)
            if header is None:
                break
            self._waiting.append((request, header))
        return any(request.transition != self._asked for request, _ in self._waiting)

    def _answer(self, request: Any, response: Any) -> Any:
        self._asked = request.transition
        self._try(request, response)
        while self._waiting:
            later, header = self._waiting.pop(0)
            answer = self._service.srv_type.Response()
            if later.transition == request.transition:
                answer.success = response.success
            elif _stands_there(self._node, later.transition):
                answer.success = True
            else:
                self._try(later, answer)
            self._service.send_response(answer, header)
        self._asked = None
        return response

    def _try(self, request: Any, response: Any) -> None:
        try:
            self._change(request, response)
        except rclpy_implementation.RCLError as error:
            self._node.get_logger().warning(f"transition refused: {error}")
            response.success = False


def _stands_there(node: LifecycleNode, transition: Any) -> bool:
    """Whether a node that gave way is where deactivation would have taken it."""
    deactivates = transition.id == Transition.TRANSITION_DEACTIVATE or transition.label == "deactivate"
    return deactivates and node._state_machine.current_state[0] == State.PRIMARY_STATE_INACTIVE


def say_failures(node: LifecycleNode) -> None:
    """Log an exception of a transition's callback with its traceback; rclpy takes it for an error and says nothing."""
    for state, callback in node._callbacks.items():
        node._callbacks[state] = _saying(node, callback)


def _saying(
    node: LifecycleNode, callback: Callable[[Any], TransitionCallbackReturn]
) -> Callable[[Any], TransitionCallbackReturn]:
    def call(state: Any) -> TransitionCallbackReturn:
        try:
            return callback(state)
        except Exception as error:
            node.get_logger().error(f"{callback.__name__} failed:\n{''.join(traceback.format_exception(error))}")
            raise

    return call


def destroy_services(node: LifecycleNode) -> None:
    """Offer the lifecycle services no more; rclpy leaves that to the garbage collector, and they outlive their node."""
    node._state_machine.destroy_when_not_in_use()
