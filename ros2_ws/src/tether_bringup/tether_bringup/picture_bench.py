"""The perception process alone under pictures of one size and rate: frames a second, memory and its slope.

    python -m tether_bringup.picture_bench --size 1920x1080 --rate 15 --minutes 30 --json OUT

starts `camera_ingest` as the graph does, in a process of its own, and sends it noisy pictures from another one through
DDS. Memory is what the operating system says of that process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos

from tether import topics
from tether.bench.figures import Benchmark, Metric
from tether.bench.graph import picture_size
from tether.codec import decode, encode, sensors
from tether.contracts import CameraModel, ImageSample, SampleRef, Stream
from tether.errors import TetherError
from tether.launch.domain import own_domain
from tether.launch.lifecycle import Answer, Transition
from tether.launch.ros_log import ensure_log_dir
from tether.results import require_writable, write_json
from tether_bringup.remote import ServiceRemote

NODE = "camera_ingest"
_WARM_S, _SAMPLE_S = 10.0, 1.0
_PICTURES = 8
_SLOPE_SAMPLES_MIN = 60


class Bench:
    """Publishes pictures and counts what comes out."""

    def __init__(self, node: Node, size: tuple[int, int], rate_hz: float) -> None:
        self.sent, self.seen, self.refused = 0, 0, 0
        self.took_ms: list[float] = []
        self._images = node.create_publisher(
            qos.message_class(topics.IMAGE), topics.IMAGE.name, qos.publisher_qos(topics.IMAGE)
        )
        info = qos.publisher_qos(topics.CAMERA_INFO)
        self._infos = node.create_publisher(qos.message_class(topics.CAMERA_INFO), topics.CAMERA_INFO.name, info)
        node.create_subscription(
            qos.message_class(topics.IMAGE_FEATURE),
            topics.IMAGE_FEATURE.name,
            self._count,
            qos.subscriber_qos(topics.IMAGE_FEATURE, must_not_lose=True),
            raw=True,
        )
        width, height = size
        rng = np.random.default_rng(0)
        self._rgb = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(_PICTURES)]
        k = np.array([[width, 0.0, width / 2], [0.0, width, height / 2], [0.0, 0.0, 1.0]])
        self._camera = CameraModel(width, height, k, "camera_optical_frame")
        self._numbers = itertools.count()
        self._period_s = 1.0 / rate_hz

    def feed(self, stop: threading.Event) -> None:
        """Send pictures until told to stop; a late one is sent at once and the schedule goes on from there."""
        due_s = time.monotonic()
        while not stop.wait(max(0.0, due_s - time.monotonic())):
            number = next(self._numbers)
            ref = SampleRef(Stream.CAMERA, time.time_ns(), number)
            sample = ImageSample(ref, self._rgb[number % _PICTURES], self._camera)
            self._infos.publish(encode(sensors.camera_info_message(self._camera, ref.stamp_ns)))
            self._images.publish(encode(sensors.image_message(sample)))
            self.sent += 1
            due_s = max(due_s + self._period_s, time.monotonic() - self._period_s)

    def _count(self, raw: bytes) -> None:
        msg = decode(raw, topics.IMAGE_FEATURE.type)
        self.seen += bool(msg.accepted)
        self.refused += not msg.accepted
        self.took_ms.append(msg.decode_ns * 1e-6)


@contextmanager
def _spun(domain: int) -> Iterator[Node]:
    """A node of the bench's own, spun by a thread."""
    context = rclpy.Context()
    ensure_log_dir()
    rclpy.init(args=[], context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("picture_bench", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            return

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield node
    finally:
        executor.shutdown(timeout_sec=5.0)
        thread.join(timeout=5.0)
        node.destroy_node()
        rclpy.shutdown(context=context)


def measure(size: tuple[int, int], rate_hz: float, minutes: float, policy: str) -> Benchmark:
    """Run it; TetherError where the process does not come up or ends."""
    with own_domain() as domain:
        words = ["--ros-args", "-p", "wait_for_match:=false", "-p", f"policy:={policy}", "-p", "profile:=real"]
        command = [sys.executable, "-c", "from tether_ingest.camera_ingest import main; main()", *words]
        environment = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
        with _spun(domain) as node, subprocess.Popen(command, env=environment) as process:
            try:
                _bring_up(node, domain)
                return _run(Bench(node, size, rate_hz), process, size, rate_hz, minutes)
            finally:
                process.kill()  # nothing of it is left to be written


def _bring_up(node: Node, domain: int) -> None:
    remote = ServiceRemote(node, [NODE], lambda: False)
    if remote.await_offer(NODE, 60.0) is not Answer.DONE:
        raise TetherError(f"{NODE} in domain {domain} offers no lifecycle services within 60 s; see what it said above")
    for transition in (Transition.CONFIGURE, Transition.ACTIVATE):
        answer = remote.change(NODE, transition, 60.0, interruptible=True)
        if answer is not Answer.DONE:
            raise TetherError(f"{NODE} in domain {domain} does not {transition.value}: {answer.value}")


def _run(
    bench: Bench, process: subprocess.Popen[bytes], size: tuple[int, int], rate_hz: float, minutes: float
) -> Benchmark:
    stop = threading.Event()
    feeder = threading.Thread(target=bench.feed, args=(stop,), daemon=True)
    feeder.start()
    watched = psutil.Process(process.pid)
    time.sleep(_WARM_S)
    begin_s, sent, seen, cpu = time.monotonic(), bench.sent, bench.seen, watched.cpu_times()
    bench.took_ms.clear()
    load = [os.getloadavg()[0]]
    at_s, rss_mib = [], []
    while (now_s := time.monotonic() - begin_s) < minutes * 60.0:
        if process.poll() is not None:
            raise TetherError(f"{NODE} ended after {now_s:.0f} s with status {process.returncode}")
        at_s.append(now_s)
        rss_mib.append(watched.memory_info().rss / 2**20)
        time.sleep(_SAMPLE_S)
    load.append(os.getloadavg()[0])
    wall_s, used = time.monotonic() - begin_s, watched.cpu_times()
    sent, seen = bench.sent - sent, bench.seen - seen
    if not bench.took_ms:
        raise TetherError(f"no picture of {sent} came out of {NODE}; the machine is too busy for this")
    stop.set()
    feeder.join()
    metrics = {
        "frames_per_second": Metric.of([seen / wall_s], "Hz"),
        "dropped": Metric.of([1.0 - seen / sent if sent else 1.0], "share"),
        "decode_and_look_ms": Metric.of(bench.took_ms, "ms"),
        "rss": Metric.of(rss_mib, "MiB"),
        "cpu": Metric.of([(used.user + used.system - cpu.user - cpu.system) / wall_s], "cores"),
    }
    if len(at_s) >= _SLOPE_SAMPLES_MIN:
        slope, noise = _slope(np.array(at_s) / 60.0, np.array(rss_mib))
        metrics["rss_slope"] = Metric.of([slope], "MiB/min")
        metrics["rss_slope_noise"] = Metric.of([noise], "MiB/min")
    note = (
        f"pictures of {size[0]}x{size[1]} sent at {rate_hz:g} Hz for {minutes:g} min; {sent} sent, {seen} looked at, "
        f"{bench.refused} refused; load average {load[0]:.1f} before, {load[1]:.1f} after"
    )
    return Benchmark("perception", metrics, {}, (note,))


def _slope(minutes: Any, mib: Any) -> tuple[float, float]:
    """Slope of the second half, after start-up has settled, and how far blocks of it differ (2 standard errors)."""
    half = len(minutes) // 2
    blocks = [
        float(np.polyfit(t, m, 1)[0])
        for t, m in zip(np.array_split(minutes[half:], 4), np.array_split(mib[half:], 4), strict=True)
    ]
    return float(np.polyfit(minutes[half:], mib[half:], 1)[0]), 2.0 * float(np.std(blocks, ddof=1)) / 2.0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="picture_bench", description=__doc__)
    parser.add_argument("--size", type=picture_size, default=(1920, 1080), metavar="WxH")
    parser.add_argument("--rate", type=float, default=15.0, help="pictures a second (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--policy", default="student", help="whose eyes look (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
    arguments = parser.parse_args()
    if arguments.json is not None:
        require_writable(arguments.json)
    result = measure(arguments.size, arguments.rate, arguments.minutes, arguments.policy)
    sys.stdout.write(result.as_table())
    if arguments.json is not None:
        write_json(arguments.json, result.as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
