"""How a process of the graph runs: spins its nodes, and on a signal waits for the manager before it goes."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from tether.errors import TetherError
from tether_ros.node import StageNode

BAD_PARAMETERS = 2
GRACE_S = 2.0
"""`ros2 launch` interrupts all processes at once: nodes wait this long for the manager to bring them down in order."""


def run(make_nodes: Sequence[Callable[[], StageNode]], argv: Sequence[str] | None = None) -> int:
    """Run the nodes in one process until they are told to go; the first that fails ends them all.

    Returns the exit status: 0 done, 1 a node failed, 2 a parameter was refused.
    """
    rclpy.init(args=list(argv) if argv is not None else sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    interrupted: list[float] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        interrupted.append(time.monotonic())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    executor = SingleThreadedExecutor()
    nodes: list[StageNode] = []
    try:
        for make in make_nodes:
            try:
                nodes.append(make())
            except (TetherError, ValueError, ParameterException) as error:
                rclpy.logging.get_logger("tether_ros").fatal(f"parameters refused: {error}")
                return BAD_PARAMETERS
            executor.add_node(nodes[-1])
        while rclpy.ok() and not _done(nodes, interrupted):
            executor.spin_once(timeout_sec=0.1)
    except ExternalShutdownException:
        return 0
    finally:
        executor.shutdown(timeout_sec=1.0)
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()
    return max((node.exit_status for node in nodes), default=0)


def _done(nodes: Sequence[StageNode], interrupted: Sequence[float]) -> bool:
    if all(node.finished for node in nodes) or any(node.finished and node.exit_status for node in nodes):
        return True
    if not interrupted:
        return False
    grace_over = time.monotonic() - interrupted[0] > GRACE_S
    return grace_over or len(interrupted) > 1 or not any(node.active for node in nodes)
