"""Listens for one verdict of the safety gate; exit status 0 where it came, 1 with the reason where none did.

Not subscribed by the gate's own process and not asked of it: what counts is what others hear.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

DEADLINE_S = 5.0


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help=f"({DEADLINE_S:g})")
    deadline_s = parser.parse_args().deadline
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")  # as robot.launch.xml has it
    import rclpy
    from tether_ros.qos import subscriber_qos

    from tether.topics import VERDICT
    from tether_msgs.msg import SafetyVerdict

    heard: list[object] = []
    rclpy.init()
    node = rclpy.create_node("health")
    try:
        qos = subscriber_qos(VERDICT, must_not_lose=False)
        node.create_subscription(SafetyVerdict, VERDICT.name, heard.append, qos, raw=True)
        end_s = time.monotonic() + deadline_s
        while not heard and time.monotonic() < end_s:
            rclpy.spin_once(node, timeout_sec=0.2)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    if heard:
        return 0
    sys.stderr.write(f"no {VERDICT.name} within {deadline_s:g} s: the safety gate does not tick, or is not there\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
