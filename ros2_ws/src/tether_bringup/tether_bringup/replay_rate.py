"""Rate at which a bag goes through DDS from this process to another, serialised and reliable; prints JSON.

The parent publishes every message as fast as the child acknowledges; the child counts. `tether bench replay` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import rclpy
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import UInt8MultiArray

from tether.bags import open_bag
from tether.codec import encode, message
from tether.launch.ros_log import ensure_log_dir
from tether.own_stdout import own_stdout

TOPIC = "/tether_replay_rate"
BURST = 250
MATCH_S, SILENCE_S = 20.0, 5.0
PROFILE = QoSProfile(history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE)
"""Keep all: a counter that is slower than the publisher makes it wait instead of losing what it has not taken."""


def publish(path: Path, answers: BinaryIO) -> int:
    """Publish the bag's messages, each in the bytes of one array, and answer with what the child counted."""
    with open_bag(path) as bag:
        payloads = [_wrap(m.raw) for m in bag.messages()]
    child = subprocess.Popen(
        [sys.executable, "-m", "tether_bringup.replay_rate", "--count", str(len(payloads))], stdout=subprocess.PIPE
    )
    ensure_log_dir()
    rclpy.init()
    node = rclpy.create_node("replay_rate")
    publisher = node.create_publisher(UInt8MultiArray, TOPIC, PROFILE)
    try:
        deadline = time.monotonic() + MATCH_S
        while publisher.get_subscription_count() == 0:
            if time.monotonic() > deadline:
                sys.stderr.write(f"the counting process was not found within {MATCH_S:g} s\n")
                return 1
            time.sleep(0.02)
        for number, payload in enumerate(payloads):
            publisher.publish(payload)
            if number % BURST == 0:
                publisher.wait_for_all_acked(Duration(seconds=SILENCE_S))
        publisher.wait_for_all_acked(Duration(seconds=SILENCE_S))
        out, _ = child.communicate(timeout=60.0)
    finally:
        child.kill()
        child.wait()
        node.destroy_node()
        rclpy.shutdown()
    answers.write(out)
    return 0


def _wrap(raw: bytes) -> bytes:
    array = message("std_msgs/msg/UInt8MultiArray")
    layout = message("std_msgs/msg/MultiArrayLayout")([], 0)
    return encode(array(layout, np.frombuffer(raw, np.uint8)))


def count(expected: int, answers: BinaryIO) -> int:
    """Take serialised messages until all have come or none comes any more; answer with rate and loss."""
    ensure_log_dir()
    rclpy.init()
    node = rclpy.create_node("replay_rate_counter")
    times: list[float] = []
    node.create_subscription(UInt8MultiArray, TOPIC, lambda raw: times.append(time.monotonic()), PROFILE, raw=True)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    begun = time.monotonic()
    while len(times) < expected and time.monotonic() - (times[-1] if times else begun + MATCH_S) < SILENCE_S:
        executor.spin_once(timeout_sec=0.1)
    span_s = times[-1] - times[0] if len(times) > 1 else float("inf")
    result = {"messages_per_s": (len(times) - 1) / span_s if times else 0.0, "lost": expected - len(times)}
    answers.write(json.dumps(result).encode())
    answers.flush()
    node.destroy_node()
    rclpy.shutdown()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: a bag to publish, or `--count N` for the process that counts."""
    words = list(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    with own_stdout() as answers:
        if words[:1] == ["--count"]:
            return count(int(words[1]), answers)
        return publish(Path(words[0]), answers)


if __name__ == "__main__":
    sys.exit(main())
