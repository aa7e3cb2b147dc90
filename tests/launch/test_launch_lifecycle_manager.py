"""The lifecycle manager as a process, bringing real rclpy lifecycle nodes up and down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2's rclpy")
pytest.importorskip("tether_msgs", reason="needs the built interfaces (make setup)")

from tether.launch import EndReason, Outcome, Runner, StopTimes, read, shm
from tether.launch.output import Line

pytestmark = pytest.mark.ros

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 90.0

# argv: name, and after "--ros-args" what the launch gives; $FAULT_<name> names a transition that goes wrong
NODE = """
import os, signal, sys, time
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

rclpy.init(signal_handler_options=SignalHandlerOptions.NO)

class Small(LifecycleNode):
    def step(self, what):
        with open(os.environ["TRACE"], "a") as file:
            file.write(f"{what} {self.get_name()}\\n")
        fault = os.environ.get("FAULT_" + self.get_name(), "")
        if fault == "refuse " + what:
            return TransitionCallbackReturn.FAILURE
        if fault == "raise " + what:
            raise RuntimeError("on purpose")
        if fault == "hang " + what:
            time.sleep(3600)
        if fault == "die " + what:
            os._exit(9)
        return TransitionCallbackReturn.SUCCESS
    def on_configure(self, state): return self.step("configure")
    def on_activate(self, state): return self.step("activate")
    def on_deactivate(self, state): return self.step("deactivate")
    def on_shutdown(self, state): return self.step("shutdown")

class Lossy(SingleThreadedExecutor):
    # loses the first request to change the state, or the answer to it, as DDS may while it discovers; or the answer to
    # the second one, and its work is done
    lost, activates = False, False
    def _take_service(self, service):
        what = os.environ.get("FAULT_" + node.get_name(), "")
        taken = super()._take_service(service)
        if self.lost or not what.startswith("lose") or not service.service_name.endswith("change_state"):
            return taken
        if what == "lose answer and finish" and not self.activates:
            self.activates = True
            return taken
        self.lost = True
        if what == "lose request":
            async def nothing(): pass
            return nothing
        async def unanswered():
            send, service.send_response = service.send_response, lambda *args: None
            await taken()
            service.send_response = send
            if self.activates:
                leave(0, None)
        return unanswered

node = Small("small")
executor = Lossy()
executor.add_node(node)
going = True
def leave(number, frame):
    global going
    going = False
signal.signal(signal.SIGINT, leave)
signal.signal(signal.SIGTERM, leave)
while going:
    executor.spin_once(timeout_sec=0.1)
node.destroy_node()
rclpy.shutdown()
"""
NAMES = ["world", "gate", "fusion"]


@pytest.fixture(autouse=True)
def surroundings(domain: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A DDS domain of the test's own, on this machine only, and folders of its own."""
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    packages = [str(REPOSITORY / "src"), *map(str, (REPOSITORY / "ros2_ws/src").iterdir())]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*packages, os.environ.get("PYTHONPATH", "")]))


class Graph:
    """Small lifecycle nodes and the manager under our runner."""

    def __init__(self, prefix, tmp_path: Path) -> None:
        self.trace = tmp_path / "trace"
        self.lines: list[Line] = []
        self._prefix = prefix
        prefix.add("small", "node", NODE)
        prefix.add(
            "tether_bringup",
            "lifecycle_manager",
            "import sys\nfrom tether_bringup.lifecycle_manager import main\nsys.exit(main())",
        )

    def runner(self, parameters: str = "", nodes: list[str] = NAMES) -> Runner:
        body = "\n".join(f'<node pkg="small" exec="node" name="{name}" output="screen"/>' for name in nodes)
        manager = f"""
        <node pkg="tether_bringup" exec="lifecycle_manager" name="lifecycle_manager" on_exit="shutdown">
          <param name="nodes" value="[{", ".join(NAMES)}]"/>
          {parameters}
        </node>
        """
        env = {**self._prefix.env, "PYTHONPATH": os.environ["PYTHONPATH"]}
        plan = read(self._prefix.launch_file(body + manager), {}, env)
        return Runner(plan, env=env, sink=self.lines.append, times=StopTimes(3.0, 0.5), end_on_failure=False)

    def run(self, parameters: str = "", nodes: list[str] = NAMES) -> Outcome:
        """Run until the launch ends by itself."""
        with self.runner(parameters, nodes) as run:
            return run.wait(PATIENCE_S)

    def await_text(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.said(text):
            assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {text!r}; got {self.lines}"
            time.sleep(0.02)

    def said(self, text: str) -> bool:
        return any(text in line.text for line in list(self.lines))

    def steps(self) -> list[str]:
        return self.trace.read_text().splitlines() if self.trace.exists() else []


@pytest.fixture
def graph(prefix, tmp_path: Path) -> Graph:
    return Graph(prefix, tmp_path)


def steps_of(*words: str, names: list[str] = NAMES) -> list[str]:
    return [f"{word} {name}" for word in words for name in names]


def test_graph_goes_up_in_order_and_down_in_reverse_on_a_request_to_stop(graph):
    with graph.runner() as run:
        graph.await_text("lifecycle_up")
        assert graph.steps() == steps_of("configure", "activate")
        run.ask_stop()
        outcome = run.wait(PATIENCE_S)
    assert (outcome.reason, outcome.failure) == (EndReason.STOPPED, None)
    down = steps_of("deactivate", "shutdown", names=NAMES[::-1])
    assert graph.steps() == steps_of("configure", "activate") + down


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("refuse configure", "node 'gate' refused 'configure' and is unconfigured"),
        ("raise activate", "node 'gate' refused 'activate'"),
        ("hang activate", "node 'gate' did not answer 'activate' within 8 s"),
        ("die configure", "node 'gate' did not answer 'configure' within 10 s"),
    ],
)
def test_node_that_fails_is_named_and_the_rest_goes_down(graph, monkeypatch, fault: str, message: str):
    monkeypatch.setenv("FAULT_gate", fault)
    deadlines = '<param name="configure_s" value="10.0"/><param name="activate_s" value="8.0"/>'
    outcome = graph.run(deadlines)
    assert outcome.reason is EndReason.PROCESS_EXITED
    assert outcome.failure is not None
    assert graph.said(message)
    assert "shutdown world" in graph.steps()
    if fault.endswith("activate"):
        assert "deactivate world" in graph.steps()
        assert "activate fusion" not in graph.steps()


@pytest.mark.parametrize("fault", ["lose request", "lose answer"])
def test_request_or_answer_that_gets_lost_does_not_stop_the_graph(graph, monkeypatch, fault: str):
    monkeypatch.setenv("FAULT_gate", fault)
    with graph.runner() as run:
        graph.await_text("lifecycle_up")
        run.ask_stop()
        run.wait(PATIENCE_S)
    assert graph.steps()[:6] == steps_of("configure", "activate")


def test_node_that_never_starts_is_named(graph):
    outcome = graph.run('<param name="offer_s" value="15.0"/>', nodes=["world", "gate"])
    assert outcome.failure is not None
    assert outcome.failure.label == "lifecycle_manager"
    assert graph.said("node 'fusion' did not offer its lifecycle services within 15 s")
    assert "shutdown world" in graph.steps()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_lost_node_is_reported_and_the_rest_goes_down(graph, number):
    with graph.runner('<param name="lost_s" value="8.0"/><param name="watch_period_s" value="0.3"/>') as run:
        graph.await_text("lifecycle_up")
        os.kill(run.processes["fusion"].pid, number)
        outcome = run.wait(PATIENCE_S)
    assert outcome.failure is not None
    assert graph.said("node_lost: 'fusion'")
    deactivated = [step for step in graph.steps() if step.startswith("deactivate")]
    assert deactivated == ["deactivate gate", "deactivate world"]


def test_end_of_a_node_that_may_finish_ends_the_run_well(graph):
    parameters = '<param name="may_finish" value="[fusion]"/><param name="watch_period_s" value="0.2"/>'
    with graph.runner(parameters) as run:
        graph.await_text("lifecycle_up")
        run.processes["fusion"].send(signal.SIGINT)
        outcome = run.wait(PATIENCE_S)
    assert (outcome.reason, outcome.failure) == (EndReason.PROCESS_EXITED, None)
    assert graph.said("node_finished: 'fusion' has finished")


def test_end_of_a_node_that_may_finish_before_its_answer_to_activate_came_ends_the_run_well(graph, monkeypatch):
    monkeypatch.setenv("FAULT_fusion", "lose answer and finish")
    outcome = graph.run('<param name="may_finish" value="[fusion]"/><param name="watch_period_s" value="0.2"/>')
    assert (outcome.reason, outcome.failure) == (EndReason.PROCESS_EXITED, None)
    assert graph.said("node_finished: 'fusion' has finished")
    assert "deactivate world" in graph.steps()


def test_interruption_while_coming_up_brings_everything_down(graph, monkeypatch):
    with graph.runner(nodes=["world", "gate"]) as run:
        graph.await_text("'gate' is inactive")
        run.ask_stop()
        outcome = run.wait(PATIENCE_S)
    assert (outcome.reason, outcome.failure) == (EndReason.STOPPED, None)
    up = steps_of("configure", names=["world", "gate"])
    assert graph.steps() == [*up, "shutdown gate", "shutdown world"]


@pytest.fixture
def status_reader() -> Iterator[subprocess.Popen[str]]:
    """A late joiner that prints the latched status and ends."""
    program = """
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from tether import topics
from tether_ros import qos
rclpy.init()
node = rclpy.create_node("reader")
got = []
profile = qos.subscriber_qos(topics.LIFECYCLE_STATUS, must_not_lose=True)
node.create_subscription(DiagnosticArray, topics.LIFECYCLE_STATUS.name, got.append, profile)
while not got:
    rclpy.spin_once(node, timeout_sec=0.1)
print([(s.hardware_id, s.message, s.level) for s in got[-1].status])
node.destroy_node()
rclpy.shutdown()
"""
    popen = None

    def start() -> subprocess.Popen[str]:
        nonlocal popen
        popen = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        return popen

    yield start
    if popen is not None:
        popen.kill()
        popen.wait()


def test_late_joiner_learns_the_state_of_every_node(graph, status_reader):
    with graph.runner():
        graph.await_text("lifecycle_up")
        out, _ = status_reader().communicate(timeout=PATIENCE_S)
    assert out.strip() == str([(name, "active", b"\x00") for name in NAMES])


def test_nothing_is_left_in_shared_memory_after_killed_nodes(graph):
    with graph.runner() as run:
        graph.await_text("lifecycle_up")
        used = set()
        for process in run.processes.values():
            for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
                name = line.rpartition("/dev/shm/")[2]
                # ports are the machine's: a process that has nothing to do with this test may use the same one
                if name.startswith("fast") and "_port" not in name:
                    used |= {name, f"{name}_el", f"sem.{name}_mutex"}
        assert used, "Fast DDS uses no shared memory here: this test shows nothing"
        for process in run.processes.values():
            process.send(signal.SIGKILL)
        run.wait(PATIENCE_S)
    assert not used & {path.name for path in shm.left_behind(0)}
