"""What rclpy's lifecycle nodes of Jazzy leave open about their services."""

from __future__ import annotations

from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode


def refuse_unknown_transitions(node: LifecycleNode) -> None:
    """Answer no to a transition that the state does not have; rclpy raises, and any caller could end the node."""
    service = node._service_change_state
    change = service.callback

    def answer(request: Any, response: Any) -> Any:
        try:
            return change(request, response)
        except rclpy_implementation.RCLError as error:
            node.get_logger().warning(f"transition refused: {error}")
            response.success = False
            return response

    service.callback = answer


def destroy_services(node: LifecycleNode) -> None:
    """Offer the lifecycle services no more; rclpy leaves that to the garbage collector, and they outlive their node."""
    node._state_machine.destroy_when_not_in_use()
