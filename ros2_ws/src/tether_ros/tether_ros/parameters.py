"""Parameters that every node declares alike."""

from __future__ import annotations

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter


def declared_names(node: Node, name: str, doc: str) -> list[str]:
    """Declare a parameter that holds names, none where it is not set, and return them; it is fixed from then on."""
    descriptor = ParameterDescriptor(description=doc, read_only=True)
    return list(node.declare_parameter(name, Parameter.Type.STRING_ARRAY, descriptor).value or ())
