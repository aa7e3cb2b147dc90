"""`tether bench replay`: delivering a bag to a consumer in this process, against bare reading with `rosbags`.

Both sides deserialise every message. Ours also merges, checks, stamps, keeps time and counts; the consumer takes each
message and does nothing. Beside it, where ROS is at hand: the rate through DDS from one process to another.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader

from tether import codec
from tether.arguments import positive
from tether.bags.player import NullSink, Player, PlayOptions, Unpaced
from tether.bags.reader import open_bag
from tether.bags.writer import BagWriter
from tether.bench.figures import Benchmark, Metric, Ratio, in_turn
from tether.errors import TetherError

AGAINST = "rosbags AnyReader, deserialising"
_DDS_DEADLINE_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--bag", type=Path, help="bag to read (default: one minute of a run's sensors, made up)")
    parser.add_argument("--rounds", type=positive, default=15, help="measurements of each side, in turn (default 15)")
    parser.add_argument("--no-dds", action="store_true", help="leave out the rate through DDS")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Measure in turn: deliver, read, deliver, read …"""
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        path = arguments.bag or make_bag(Path(folder) / "bag")
        return _measure(path, arguments.rounds, dds=not arguments.no_dds)


def _measure(path: Path, rounds: int, dds: bool) -> Benchmark:
    counts: dict[str, int] = {}

    def deliver() -> None:
        sink = NullSink()
        with open_bag(path) as bag:
            Player(bag, sink, PlayOptions(pace=Unpaced())).play()
        counts["delivered"] = sink.message_count

    def read() -> None:
        count = 0
        with AnyReader([path], default_typestore=codec.typestore()) as reader:
            for connection, _, raw in reader.messages():
                reader.deserialize(raw, connection.msgtype)
                count += 1
        counts["read"] = count

    ours, bare = in_turn([deliver, read], rounds)
    if counts["delivered"] != counts["read"]:
        raise TetherError(
            f"{path}: delivered {counts['delivered']} messages, rosbags read {counts['read']}; "
            "the two sides did not do the same work, so no ratio is given. Use a sound bag"
        )
    count = counts["read"]
    metrics = {
        "deliver_messages_per_s": Metric.of([count / t for t in ours], "1/s"),
        "read_messages_per_s": Metric.of([count / t for t in bare], "1/s"),
    }
    notes = [f"{count} messages; opening the bag is part of both sides"]
    if dds:
        rate, note = through_dds(path)
        if rate is not None:
            metrics["dds_messages_per_s"] = Metric.of([rate["messages_per_s"]], "1/s")
            metrics["dds_lost"] = Metric.of([rate["lost"]], "messages")
        notes.append(note)
    return Benchmark("replay", metrics, {"deliver": Ratio.of(ours, bare, AGAINST)}, tuple(notes))


def through_dds(path: Path) -> tuple[dict[str, float] | None, str]:
    """Rate from a publishing to a subscribing process; None and the reason where ROS is not at hand."""
    missing = [name for name in ("rclpy", "tether_bringup") if importlib.util.find_spec(name) is None]
    if missing:
        return None, f"rate through DDS not measured: no module {', '.join(missing)}; `make setup` installs it"
    command = [sys.executable, "-m", "tether_bringup.replay_rate", str(path.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DDS_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        return None, f"rate through DDS not measured: nothing within {_DDS_DEADLINE_S:g} s"
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return None, f"rate through DDS not measured: {last}"
    return json.loads(done.stdout.splitlines()[-1]), "through DDS: serialised, one process to another, reliable"


def make_bag(path: Path, seconds: int = 60) -> Path:
    """Sensors of a run: IMU at 200 Hz, joints at 100 Hz, 320x240 pictures at 5 Hz."""
    rng = np.random.default_rng(0)
    start_ns = 1_700_000_000_000_000_000
    imu, joints, image = (f"sensor_msgs/msg/{name}" for name in ("Imu", "JointState", "Image"))
    with BagWriter(path) as writer:
        for topic, type_name in (("/imu/data_raw", imu), ("/joint_states", joints), ("/camera/image_raw", image)):
            writer.add_topic(topic, type_name)
        for i in range(seconds * 200):
            at_ns = start_ns + i * 5_000_000
            writer.write("/imu/data_raw", codec.encode(_imu(at_ns, rng)), at_ns)
            if i % 2 == 0:
                writer.write("/joint_states", codec.encode(_joints(at_ns, rng)), at_ns)
            if i % 40 == 0:
                writer.write("/camera/image_raw", codec.encode(_image(at_ns, rng)), at_ns)
    return path


def _header(stamp_ns: int, frame: str) -> Any:
    time = codec.message("builtin_interfaces/msg/Time")(stamp_ns // 10**9, stamp_ns % 10**9)
    return codec.message("std_msgs/msg/Header")(time, frame)


def _imu(stamp_ns: int, rng: np.random.Generator) -> Any:
    vector, still = codec.message("geometry_msgs/msg/Vector3"), np.zeros(9)
    turn = codec.message("geometry_msgs/msg/Quaternion")(0.0, 0.0, 0.0, 1.0)
    return codec.message("sensor_msgs/msg/Imu")(
        _header(stamp_ns, "imu_link"),
        turn,
        still,
        vector(*rng.normal(size=3)),
        still,
        vector(*rng.normal(size=3)),
        still,
    )


def _joints(stamp_ns: int, rng: np.random.Generator) -> Any:
    names = [f"joint_{i}" for i in range(9)]
    return codec.message("sensor_msgs/msg/JointState")(
        _header(stamp_ns, ""), names, rng.normal(size=9), rng.normal(size=9), np.zeros(0)
    )


def _image(stamp_ns: int, rng: np.random.Generator) -> Any:
    pixels = rng.integers(0, 255, 320 * 240 * 3, dtype=np.uint8)
    return codec.message("sensor_msgs/msg/Image")(
        _header(stamp_ns, "camera_optical_frame"), 240, 320, "rgb8", 0, 960, pixels
    )
