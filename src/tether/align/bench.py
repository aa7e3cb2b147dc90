"""`tether bench align`: our matcher against message_filters itself, on the same messages.

message_filters is brought beside the project, not with it (it is on no package index for Python):

    git clone https://github.com/ros2/message_filters && git -C message_filters checkout 361e42c78ee0
    tether bench align --message-filters message_filters

Both sides get the same message objects, as subscribers would, and both sides' matched sets are compared
message by message before anything is timed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import numpy as np

from tether.align.matcher import ApproximateMatcher
from tether.arguments import not_negative, positive
from tether.bench.figures import Benchmark, Metric, Ratio, in_turn
from tether.errors import Fault, InvalidInputError

ENVIRONMENT = "TETHER_MESSAGE_FILTERS"
COMMIT = "361e42c78ee08a7b63397a143eae87fda7514d61"
SHA256 = "d431d9bbea26a2690af5efdb43e8c64e641b1c68602f72d0ed2c4cd01735f61e"
"""Of src/message_filters/__init__.py at COMMIT."""
STREAMS = 3
QUEUE_SIZE = 100
SLOP_NS = 20_000_000
_RATES_HZ = (100.0, 50.0, 30.0)

Sets = list[tuple[int, ...]]


@dataclass(frozen=True)
class _Stamp:
    sec: int
    nanosec: int


@dataclass(frozen=True)
class _Header:
    stamp: _Stamp


@dataclass(frozen=True)
class _Message:
    """Looks like any stamped message; `number` tells which one it is."""

    header: _Header
    number: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument(
        "--message-filters",
        type=Path,
        default=os.environ.get(ENVIRONMENT),
        metavar="DIR",
        help=f"checkout of ros2/message_filters or its __init__.py (default: ${ENVIRONMENT})",
    )
    parser.add_argument("--messages", type=positive, default=3000, help="messages a round, over all streams")
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--seed", type=not_negative, default=0)


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Time our matcher, and message_filters where at hand. Raises AssertionError where the sets differ."""
    work = workload(arguments.messages, arguments.seed)
    notes = [
        f"{STREAMS} streams at {', '.join(f'{r:g}' for r in _RATES_HZ)} Hz, jitter, late and lost messages; "
        f"queues of {QUEUE_SIZE}, slop {SLOP_NS // 1_000_000} ms, {len(work)} messages a round",
    ]
    ours = match_ours(work)
    if arguments.message_filters is None:
        (times,) = in_turn([lambda: match_ours(work)], arguments.rounds)
        notes.append(f"message_filters not at hand, so no ratio: give --message-filters or ${ENVIRONMENT}")
        return Benchmark("align", _rates(times, len(ours), len(work), "tether"), {}, tuple(notes))
    module, version = load_message_filters(arguments.message_filters)
    run_theirs = theirs(module, work)
    reference = run_theirs()
    if ours != reference:
        raise AssertionError(_first_difference(ours, reference))
    notes.append(f"the same {len(ours)} sets from both")
    times, against = in_turn([lambda: match_ours(work), run_theirs], arguments.rounds)
    metrics = {
        **_rates(times, len(ours), len(work), "tether"),
        **_rates(against, len(ours), len(work), "message_filters"),
    }
    ratio = Ratio.of(times, against, f"ApproximateTimeSynchronizer of message_filters, {version}")
    return Benchmark("align", metrics, {"align_vs_message_filters": ratio}, tuple(notes))


def workload(messages: int, seed: int) -> list[tuple[int, _Message]]:
    """(stream, message) by arrival: periodic stamps with jitter, delays that disorder them, 5 % lost."""
    rng = np.random.default_rng(seed)
    duration_s = messages / sum(_RATES_HZ)
    arrivals: list[tuple[float, int, int]] = []
    for stream, rate in enumerate(_RATES_HZ):
        n = int(duration_s * rate)
        stamps = (np.arange(n) + rng.uniform(-0.3, 0.3, n)) / rate + 1.0
        kept = stamps[rng.random(n) > 0.05]
        delays = rng.uniform(0.001, 0.03, kept.size)
        arrivals += [(float(s + d), stream, round(s * 1e9)) for s, d in zip(kept, delays, strict=True)]
    arrivals.sort()
    return [
        (stream, _Message(_Header(_Stamp(*divmod(stamp_ns, 1_000_000_000))), number))
        for number, (_, stream, stamp_ns) in enumerate(arrivals)
    ]


def match_ours(work: list[tuple[int, _Message]]) -> Sets:
    """Numbers of the messages of every set that our matcher makes."""
    matcher: ApproximateMatcher[_Message] = ApproximateMatcher(STREAMS, QUEUE_SIZE, SLOP_NS)
    sets: Sets = []
    for stream, message in work:
        stamp = message.header.stamp
        found = matcher.add(stream, stamp.sec * 1_000_000_000 + stamp.nanosec, message)
        if found is not None:
            sets.append(tuple(m.number for m in found))
    return sets


def theirs(module: ModuleType, work: list[tuple[int, _Message]]) -> Callable[[], Sets]:
    """The same through message_filters; stamps are builtin_interfaces/Time, as DDS hands them over."""
    stamped = []
    for stream, message in work:
        stamp = message.header.stamp
        time = module.Time(seconds=stamp.sec, nanoseconds=stamp.nanosec).to_msg()
        stamped.append((stream, _Message(_Header(time), message.number)))

    def run() -> Sets:
        inputs = [module.SimpleFilter() for _ in range(STREAMS)]
        synchronizer = module.ApproximateTimeSynchronizer(inputs, QUEUE_SIZE, SLOP_NS * 1e-9)
        sets: Sets = []
        synchronizer.registerCallback(lambda *found: sets.append(tuple(m.number for m in found)))
        for stream, message in stamped:
            inputs[stream].signalMessage(message)
        return sets

    return run


def load_message_filters(where: Path) -> tuple[ModuleType, str]:
    """The module from a checkout or its file, and which version it is.

    Raises InvalidInputError where it is not there or cannot be imported (it needs rclpy).
    """
    candidates = [where, where / "src" / "message_filters" / "__init__.py", where / "__init__.py"]
    file = next((c for c in candidates if c.is_file()), None)
    if file is None:
        fault = Fault("--message-filters", str(where), "a checkout of ros2/message_filters or its __init__.py")
        raise InvalidInputError("bench align", [fault], f"clone it and check out {COMMIT[:12]}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    version = f"commit {COMMIT}" if digest == SHA256 else f"unknown version (sha256 {digest[:16]})"
    spec = importlib.util.spec_from_file_location("message_filters_at_hand", file)
    if spec is None or spec.loader is None:
        raise InvalidInputError("bench align", [Fault("--message-filters", str(file), "a Python file")])
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        fault = Fault("--message-filters", str(error), "rclpy installed")
        raise InvalidInputError("bench align", [fault], "run `make setup` or source a ROS 2 installation") from error
    return module, version


def _rates(times_s: list[float], sets: int, messages: int, side: str) -> dict[str, Metric]:
    return {
        f"{side}_sets_per_s": Metric.of([sets / t for t in times_s], "sets/s"),
        f"{side}_us_per_message": Metric.of([t / messages * 1e6 for t in times_s], "us"),
    }


def _first_difference(ours: Sets, reference: Sets) -> str:
    for i, (a, b) in enumerate(zip_longest(ours, reference)):
        if a != b:
            return f"set {i} differs: ours {a}, message_filters {b}"
    return "the sets are the same"
