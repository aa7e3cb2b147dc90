"""Lifecycle manager: brings the graph up in order, watches it, brings it down in reverse with the gate last.

On SIGINT or SIGTERM it brings everything down within `stop_s`: `ros2 launch` interrupts every process at once
and nodes wait 2 s for the manager. Its exit ends the launch (`on_exit="shutdown"` in the launch files).
Exit status: 0 when it was told to stop or a node of `may_finish` ended, 1 when a node failed or was lost, 2
for bad parameters.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from tether_ros.node import Mode
from tether_ros.parameters import declared_names
from tether_ros.process import ignore_signals

from tether import topics
from tether.clock import SteadyClock
from tether.codec import encode, sensors
from tether.launch.domain import only_graph
from tether.launch.lifecycle import Deadlines, Interrupted, Lineup, NodeFaultError, NodeReport, State
from tether_bringup.remote import ServiceRemote

OK, FAILED, BAD_PARAMETERS = 0, 1, 2
_ENDING_S = 3.0
"""So long a graph that is ending may still hold its place."""
_LOST_S = {Mode.REALTIME: 5.0, Mode.LOCKSTEP: 60.0}
"""In lockstep everybody waits for the slowest: one tick may take long on a starved machine, and nothing is lost."""


class LifecycleManager(Node):
    """Owns the line-up; `supervise` is its life, from another thread than the one that spins it."""

    def __init__(self) -> None:
        """Read the parameters; ValueError names those that are wrong."""
        super().__init__("lifecycle_manager")
        self._stopping = threading.Event()
        nodes = declared_names(self, "nodes", "lifecycle nodes in order of starting; stopped in reverse")
        self._may_finish = declared_names(self, "may_finish", "nodes whose end is the end of the run, not a loss")
        self._ends_on_loss = bool(self._param("end_on_loss", True, "bring all down when a node is lost"))
        self._watch_period_s = self._seconds("watch_period_s", 1.0, "between two looks at the nodes")
        mode = Mode(str(self._param("mode", "realtime", "how the graph keeps time: realtime or lockstep")))
        deadlines = Deadlines(
            offer_s=self._seconds("offer_s", 30.0, "a node has to offer its lifecycle services"),
            configure_s=self._seconds("configure_s", 60.0, "a node has to configure"),
            activate_s=self._seconds("activate_s", 20.0, "a node has to activate"),
            stop_s=self._seconds("stop_s", 1.8, "all nodes together have to deactivate and shut down"),
            lost_s=self._seconds("lost_s", _LOST_S[mode], "of silence make a node lost"),
        )
        self._status = self.create_publisher(
            DiagnosticArray, topics.LIFECYCLE_STATUS.name, qos.publisher_qos(topics.LIFECYCLE_STATUS)
        )
        self._events = self.create_publisher(
            qos.message_class(topics.EVENTS), topics.EVENTS.name, qos.publisher_qos(topics.EVENTS)
        )
        unknown = sorted(set(self._may_finish) - set(nodes))
        if unknown:
            raise ValueError(f"may_finish names {', '.join(unknown)}, which 'nodes' does not")
        remote = ServiceRemote(self, nodes, self._stopping.is_set)
        self._lineup = Lineup(nodes, remote, deadlines, SteadyClock(), self._publish, self._may_finish)

    def ask_stop(self) -> None:
        """Make `supervise` bring everything down and return."""
        self._stopping.set()

    def supervise(self) -> int:
        """Bring the nodes up, watch them until told to stop or one is lost, bring them down.

        They are brought down whatever happens here, a fault of our own included; another graph's nodes, which have the
        same names, are not even asked for their state. Returns the exit status.
        """
        domain = self.context.get_domain_id()
        place = only_graph(domain, self.get_namespace(), _ENDING_S)
        if place is None:
            text = f"another graph of this machine runs in ROS domain {domain}; end it, or set ROS_DOMAIN_ID"
            self._event(sensors.Severity.ERROR, "domain_taken", text)
            return FAILED
        with place:
            return self._supervise()

    def _supervise(self) -> int:
        try:
            return self._run()
        except Interrupted:
            return OK
        finally:
            silent = self._lineup.bring_down()
            if silent:
                names = ", ".join(silent)
                self._event(sensors.Severity.WARN, "stop_unconfirmed", f"did not confirm going down: {names}")
            else:
                self._event(sensors.Severity.INFO, "lifecycle_down", "all nodes are down")

    def _run(self) -> int:
        try:
            self._lineup.bring_up()
        except NodeFaultError as fault:
            self._event(sensors.Severity.ERROR, "node_failed", str(fault))
            return FAILED
        self._event(sensors.Severity.INFO, "lifecycle_up", "all nodes are active")
        while not self._stopping.wait(self._watch_period_s):
            for report in self._lineup.watch(self._watch_period_s):
                if report.node in self._may_finish and report.state in (State.GONE, State.FINALIZED):
                    self._event(sensors.Severity.INFO, "node_finished", f"'{report.node}' has finished")
                    return OK
                self._event(sensors.Severity.ERROR, "node_lost", f"'{report.node}' {report.trouble}")
                if self._ends_on_loss:
                    return FAILED
        return OK

    def _publish(self, report: NodeReport) -> None:
        """Publish the state of all nodes, latched."""
        if report.state is not State.CHANGING and not report.trouble:
            self.get_logger().info(f"'{report.node}' is {report.state.value}")
        array = DiagnosticArray(status=[_diagnostic(one) for one in self._lineup.reports])
        array.header.stamp = self.get_clock().now().to_msg()
        self._status.publish(array)

    def _event(self, severity: int, kind: str, text: str) -> None:
        # one call a severity: rclpy refuses a call site that changes its severity
        if severity == sensors.Severity.INFO:
            self.get_logger().info(f"{kind}: {text}")
        elif severity == sensors.Severity.WARN:
            self.get_logger().warning(f"{kind}: {text}")
        else:
            self.get_logger().error(f"{kind}: {text}")
        now_ns = int(self.get_clock().now().nanoseconds)
        message = sensors.event_message(now_ns, self.get_name(), severity, kind, text, None)
        self._events.publish(encode(message))

    def _param(self, name: str, default: object, doc: str) -> object:
        descriptor = ParameterDescriptor(description=doc, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def _seconds(self, name: str, default: float, doc: str) -> float:
        value = float(str(self._param(name, default, f"seconds {doc}")))
        if not 0.0 < value < float("inf"):
            raise ValueError(f"{name} is {value}, expected seconds above 0")
        return value


def _diagnostic(report: NodeReport) -> DiagnosticStatus:
    level = DiagnosticStatus.OK if report.state is State.ACTIVE else DiagnosticStatus.STALE
    if report.trouble:
        level = DiagnosticStatus.ERROR
    return DiagnosticStatus(
        level=level,
        name=f"lifecycle: {report.node}",
        message=report.trouble or report.state.value,
        hardware_id=report.node,
        values=[KeyValue(key="state", value=report.state.value)],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the manager until the graph is down again; return the exit status."""
    rclpy.init(args=argv, signal_handler_options=SignalHandlerOptions.NO)
    try:
        manager = LifecycleManager()
    except (ValueError, rclpy.exceptions.InvalidParameterTypeException) as error:
        rclpy.logging.get_logger("lifecycle_manager").fatal(f"refused: {error}")
        rclpy.shutdown()
        return BAD_PARAMETERS

    def on_signal(number: int, frame: FrameType | None) -> None:
        manager.ask_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    executor = SingleThreadedExecutor()
    executor.add_node(manager)

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            return

    spinner = threading.Thread(target=spin, name="spin", daemon=True)
    spinner.start()
    try:
        return manager.supervise()
    finally:
        executor.shutdown(timeout_sec=1.0)
        spinner.join(timeout=1.0)
        manager.destroy_node()
        rclpy.shutdown()
        ignore_signals()


if __name__ == "__main__":
    sys.exit(main())
