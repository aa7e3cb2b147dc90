"""CPU that heartbeats cost a graph of seven nodes and those who listen: `python -m tether_ros.beat_cost`.

Two processes: one holds the nodes, the other listens. Either sends or listens in one of these ways:
`none`, nothing, which is what rclpy itself costs; `composed`, one beat for all seven; `separate`, one beat a node, as
where each is a process; `bonds`, a beat of each node at 10 Hz and one back to it, as ROS 2's bonds do. All use the same
executor, messages and transport, so that what differs is the number of beats. Writes one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from enum import Enum

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from tether import topics
from tether.codec import decode, encode
from tether.codec.convert.guarding import beat_from, heartbeat_message
from tether.launch.ros_log import ensure_log_dir
from tether.own_stdout import own_stdout
from tether.resources import resource_path
from tether.safety.heartbeat import HeartbeatMonitor, HeartbeatRules
from tether.safety.settings import load_safety
from tether_ros import qos
from tether_ros.beats import Beats
from tether_ros.executor import DrainingExecutor

NODES = ("imu_ingest", "camera_ingest", "fusion", "policy", "opd_bridge", "primitive_executor", "safety_supervisor")
TURNS_HZ = {"primitive_executor": 100.0, "imu_ingest": 100.0, "camera_ingest": 30.0, "safety_supervisor": 100.0}
"""How often the graph's loops turn; the others 20 times a second."""
BOND_S = 0.1
SETTLE_S = 2.0


class Way(str, Enum):
    """How the nodes are heard."""

    NONE = "none"
    COMPOSED = "composed"
    SEPARATE = "separate"
    BONDS = "bonds"


class Side(Enum):
    """The two processes."""

    GRAPH = "graph"
    LISTENER = "listener"


def main() -> int:
    """Run both sides and write what each used, in shares of a core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", type=Way)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--side", type=Side)
    options = parser.parse_args()
    if options.side is not None:
        with own_stdout() as answers:
            answers.write(json.dumps(_run(options.way, options.side, options.seconds)).encode())
        return 0
    command = [sys.executable, "-m", "tether_ros.beat_cost", options.way.value, "--seconds", str(options.seconds)]
    sides = {s: subprocess.Popen([*command, "--side", s.value], stdout=subprocess.PIPE) for s in Side}
    used = {}
    for side, process in sides.items():
        out, _ = process.communicate(timeout=options.seconds + 60.0)
        if process.returncode:
            return process.returncode
        used[side.value] = json.loads(out)
    json.dump(used, sys.stdout)
    return 0


def _run(way: Way, side: Side, seconds: float) -> dict[str, float]:
    ensure_log_dir()
    rclpy.init(args=[])
    executor = DrainingExecutor(_nothing)
    nodes = [rclpy.create_node(name) for name in (NODES if side is Side.GRAPH else ("listener",))]
    for node in nodes:
        executor.add_node(node)
    heard = [0]
    rules = load_safety(resource_path("config", "safety.yaml")).heartbeats
    if side is Side.GRAPH:
        _make_graph(way, nodes, rules, heard)
    else:
        _make_listener(way, nodes[0], rules, heard)
    _spin(executor, SETTLE_S)
    heard[0] = 0
    cpu_s = time.process_time()
    start_s = time.monotonic()
    _spin(executor, seconds)
    wall_s = time.monotonic() - start_s
    used = {"cores": (time.process_time() - cpu_s) / wall_s, "heard_hz": heard[0] / wall_s}
    executor.shutdown()
    rclpy.try_shutdown()
    return used


def _spin(executor: DrainingExecutor, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.05)


def _make_graph(way: Way, nodes: list[Node], rules: HeartbeatRules, heard: list[int]) -> None:
    """Nodes whose loops do nothing but turn, and beat in one of the ways."""
    steady = Clock(clock_type=ClockType.STEADY_TIME)
    shared = Beats(nodes[0], "composed", rules) if way is Way.COMPOSED else None
    for node in nodes:
        name = node.get_name()
        beats = Beats(node, name, rules) if way is Way.SEPARATE else shared
        turn: Callable[[], None] = _nothing if beats is None else lambda b=beats, n=name: b.turn(n)  # type: ignore[misc]
        node.create_timer(1.0 / TURNS_HZ.get(name, 20.0), turn, clock=steady)
        if way is Way.BONDS:
            _bond(node, f"/bond/{name}", f"/bond/{name}/back", heard)


def _make_listener(way: Way, node: Node, rules: HeartbeatRules, heard: list[int]) -> None:
    if way is Way.BONDS:
        for name in NODES:
            _bond(node, f"/bond/{name}/back", f"/bond/{name}", heard)
        return
    monitor = HeartbeatMonitor(rules)

    def hear(raw: bytes) -> None:
        heard[0] += 1
        monitor.hear(beat_from(decode(raw, topics.HEARTBEAT.type)), time.monotonic_ns())

    kind = qos.message_class(topics.HEARTBEAT)
    profile = qos.subscriber_qos(topics.HEARTBEAT, must_not_lose=False)
    node.create_subscription(kind, topics.HEARTBEAT.name, hear, profile, raw=True)
    # the gate asks at each of its ticks
    node.create_timer(0.01, lambda: monitor.offline(time.monotonic_ns()), clock=Clock(clock_type=ClockType.STEADY_TIME))


def _bond(node: Node, sends: str, hears: str, heard: list[int]) -> None:
    """One end of a bond: a beat every 0.1 s, and the other end's is listened to."""
    kind = qos.message_class(topics.HEARTBEAT)
    publisher = node.create_publisher(kind, sends, qos.publisher_qos(topics.HEARTBEAT))
    name, count = node.get_name(), [0]

    def beat() -> None:
        count[0] += 1
        publisher.publish(encode(heartbeat_message(name, os.getpid(), (name,), count, time.monotonic_ns())))

    def hear(raw: bytes) -> None:
        heard[0] += 1
        decode(raw, topics.HEARTBEAT.type)

    node.create_timer(BOND_S, beat, clock=Clock(clock_type=ClockType.STEADY_TIME))
    node.create_subscription(kind, hears, hear, qos.subscriber_qos(topics.HEARTBEAT, must_not_lose=False), raw=True)


def _nothing() -> None:
    """A loop that nobody listens for."""


if __name__ == "__main__":
    sys.exit(main())
