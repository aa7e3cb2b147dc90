"""How a process of the graph runs: spins its nodes, and on a signal waits for the manager before it goes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import FrameType

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException
from rclpy.signals import SignalHandlerOptions

from tether.errors import TetherError
from tether.launch.ros_log import ensure_log_dir
from tether.resources import resource_path
from tether.safety.settings import load_safety
from tether.topics import Topic
from tether_ros.beats import Beats, process_name
from tether_ros.executor import DrainingExecutor
from tether_ros.hub import Hub
from tether_ros.node import Mode, StageNode

BAD_PARAMETERS = 2
_THREADS, _AUTOGROUP = Path("/proc/self/task"), Path("/proc/self/autogroup")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 2.0
"""`ros2 launch` interrupts all processes at once: nodes wait this long for the manager to bring them down in order."""


def run(
    make_nodes: Sequence[Callable[[], StageNode]],
    argv: Sequence[str] | None = None,
    handed_over: Collection[Topic] = (),
) -> int:
    """Run the nodes in one process until they are told to go; the first that fails ends them all.

    handed_over: topics that nobody but these nodes publishes; they go from node to node without DDS.
    Returns the exit status: 0 done, 1 a node failed, 2 a parameter was refused.
    """
    ensure_log_dir()
    rclpy.init(args=list(argv) if argv is not None else sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    interrupted: list[float] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        interrupted.append(time.monotonic())

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    hub = Hub(handed_over)
    executor = DrainingExecutor(hub.deliver)
    nodes: list[StageNode] = []
    try:
        for make in make_nodes:
            try:
                nodes.append(make())
            except (TetherError, ValueError, ParameterException) as error:
                rclpy.logging.get_logger("tether_ros").fatal(f"parameters refused: {error}")
                return BAD_PARAMETERS
            nodes[-1].hub = hub
            executor.add_node(nodes[-1])
        for node in nodes:
            node.housemates = frozenset(str(mate.get_name()) for mate in nodes)
            node.told_to_go = lambda: bool(interrupted)
        _take_turn(nodes)
        _start_beats(nodes)
        while rclpy.ok() and not _done(nodes, interrupted):
            executor.spin_once(timeout_sec=0.1)
    except ExternalShutdownException:
        return 0
    finally:
        executor.shutdown(timeout_sec=1.0)
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()
        ignore_signals()
    return max((node.exit_status for node in nodes), default=0)


def ignore_signals() -> None:
    """Nothing is left to bring down: a launch that interrupts now must not kill an interpreter that is ending.

    Python gives handlers back while it ends, and a process that had done its work would count as killed.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _start_beats(nodes: Sequence[StageNode]) -> None:
    """In real time the process beats, whatever its nodes are doing; lockstep waits for everybody anyway."""
    if nodes[0].mode is Mode.REALTIME:
        rules = load_safety(resource_path("config", "safety.yaml")).heartbeats
        beats = Beats(nodes[0], process_name(nodes, Path(sys.argv[0]).stem), rules)
        for node in nodes:
            node.beats = beats


def _take_turn(nodes: Sequence[StageNode]) -> None:
    """In real time the process goes before others, or after them, by the most urgent of its nodes.

    Going before others takes a right that not everybody has. Where Linux groups processes by session (autogroup, see
    sched(7)), niceness counts inside a session only, and the sessions share the processor evenly; a process that leads
    one then weighs its session, too. A real-time class goes before all that; who is denied it makes do with niceness.
    """
    if nodes[0].mode is not Mode.REALTIME:
        return
    priority = min(node.realtime_priority for node in nodes)
    hearing = min(node.hearing_priority for node in nodes)
    try:
        if priority:
            go_first(priority)
        elif hearing:
            hear_first(hearing)
    except OSError as error:
        nodes[0].get_logger().debug(f"SCHED_RR {priority or hearing} is not given: {error}")
    niceness = min(node.niceness for node in nodes)
    if niceness == 0:
        return
    try:
        target = os.getpriority(os.PRIO_PROCESS, 0) + niceness
        for thread in _THREADS.iterdir():  # DDS has made some already; those made later inherit it
            os.setpriority(os.PRIO_PROCESS, int(thread.name), target)
        if os.getsid(0) == os.getpid() and _AUTOGROUP.exists():
            _AUTOGROUP.write_text(str(niceness), encoding="ascii")
    except OSError as error:
        nodes[0].get_logger().debug(f"niceness {niceness} is not given: {error}")


def go_first(priority: int) -> None:
    """Have all threads of this process, and those that they make, run under SCHED_RR. OSError where that is denied."""
    for thread in _THREADS.iterdir():  # DDS has made some already
        os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(priority))


def hear_first(priority: int) -> None:
    """Have the threads that DDS has made run under SCHED_RR, and not the one that works. OSError where that is denied.

    Without that, a process which had to wait for the processor looks before its own ears have had their turn.
    """
    for thread in _THREADS.iterdir():
        if int(thread.name) != os.getpid():
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(priority))


def _done(nodes: Sequence[StageNode], interrupted: Sequence[float]) -> bool:
    if all(node.finished for node in nodes) or any(node.finished and node.exit_status for node in nodes):
        return True
    if not interrupted:
        return False
    grace_over = time.monotonic() - interrupted[0] > GRACE_S
    return grace_over or len(interrupted) > 1 or not any(node.active for node in nodes)
