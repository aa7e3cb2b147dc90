"""`tether bench graph`: the live graph in real time, and its peak rates, after the method of ros2_benchmark.

Live: a run with camera, IMU and joints at their rates, recorded; times come from the recording, CPU and memory from the
operating system. Then a recording is played into the graph at different speeds (`tether.bench.peak`): one made in
lockstep, whose messages stand where the world's clock had them; in one made live, where this machine had time for them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tether.arguments import not_negative
from tether.assembly import profile
from tether.bench.figures import Benchmark, Metric, Ratio
from tether.bench.peak import PLAYS_MAX, Play, search
from tether.bench.processes import ProcessWatch, Usage, usage_of_all
from tether.bench.way import Way, joined, read_way
from tether.contracts import DECISION_NS
from tether.errors import DeadlineError, TetherError
from tether.eval.graph import GraphRun
from tether.eval.result import Setting
from tether.launch.domain import own_domain
from tether.launch.output import Line
from tether.launch.reader import read
from tether.launch.runner import Runner
from tether.progress import Progress
from tether.resources import resource_path
from tether.world.profile import write_profile
from tether.world.sensors import IMU_PERIOD_NS

_START_UP_S, _SETTLE_S, _PLAY_S = 120.0, 5.0, 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the live run (default: %(default)s)")
    parser.add_argument(
        "--size", type=picture_size, default=(640, 480), metavar="WxH", help="camera pictures (default: 640x480)"
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--composed", action="store_true", help="the stages before the gate share one process")
    modes.add_argument(
        "--both",
        type=not_negative,
        default=0,
        metavar="ROUNDS",
        help="separate and composed in turn, as often each",
    )
    parser.add_argument(
        "--no-peak",
        action="store_true",
        help=f"leave out the search for the peak rates: up to {PLAYS_MAX} plays of the run, most of them faster than "
        "it was; five minutes or so",
    )


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Run it. Needs the ROS 2 nodes (make setup)."""
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as name:
        folder = Path(name)
        if arguments.both:
            return _side_by_side(folder, arguments.size, arguments.seconds, arguments.both)
        bag = folder / "live"
        usage = _record(folder, bag, arguments.size, arguments.seconds, arguments.composed)
        way = _require_decisions(read_way(bag))
        metrics = _metrics(way, usage)
        notes = _notes(way, arguments.size, arguments.composed)
        if not arguments.no_peak:
            shutil.rmtree(bag)
            even = folder / "even"
            _record(folder, even, arguments.size, arguments.seconds, arguments.composed, realtime=False)
            source = read_way(even)  # lockstep records no times, by which decisions are counted
            source.decisions = round(source.imu_samples * IMU_PERIOD_NS / DECISION_NS)
            at_peak, said = _search_peak(folder, even, source, arguments.composed)
            metrics |= at_peak
            notes = (*notes, *said)
    return Benchmark("graph", metrics, {}, notes)


def _side_by_side(folder: Path, size: tuple[int, int], seconds: float, rounds: int) -> Benchmark:
    """Separate processes and the composed one in turn: what drifts, and the phases of timers, hit both alike."""
    ways: dict[bool, list[Way]] = {False: [], True: []}
    usages: dict[bool, list[dict[str, Usage]]] = {False: [], True: []}
    for number in range(rounds):
        for composed in (False, True):
            bag = folder / f"{number}-{composed}"
            usages[composed].append(_record(folder, bag, size, seconds, composed))
            ways[composed].append(_require_decisions(read_way(bag)))
            shutil.rmtree(bag)
    metrics = _metrics(joined(ways[False]), usage_of_all(usages[False]))
    for name, metric in _metrics(joined(ways[True]), usage_of_all(usages[True])).items():
        metrics[f"composed_{name}"] = metric
    ratios = {
        "composed_vs_separate": _ratio(ways, lambda way: way.sensor_to_command_ms),
        "composed_vs_separate_without_wait": _ratio(ways, lambda way: way.decision_to_command_ms),
    }
    notes = [note for composed in (False, True) for note in _notes(joined(ways[composed]), size, composed)]
    return Benchmark("graph", metrics, ratios, (f"{rounds} rounds in turn", *dict.fromkeys(notes)))


def _require_decisions(way: Way) -> Way:
    """What was recorded has to hold decisions that reached the gate."""
    if not way.sensor_to_command_ms:
        raise TetherError(
            f"no gated command was recorded ({way.decisions} decisions); the machine is too busy for this"
        )
    return way


def _ratio(ways: dict[bool, list[Way]], times: Callable[[Way], list[float]]) -> Ratio:
    """Of the medians of rounds that followed each other."""
    separate, composed = ([float(np.median(times(way))) for way in ways[mode]] for mode in (False, True))
    return Ratio.of(composed, separate, "one process a stage")


def picture_size(text: str) -> tuple[int, int]:
    """Width and height of `640x480`."""
    match = re.fullmatch(r"([1-9]\d{1,3})x([1-9]\d{1,3})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: expected WIDTHxHEIGHT in pixels, such as 640x480")
    return int(match[1]), int(match[2])


def _record(
    folder: Path, bag: Path, size: tuple[int, int], seconds: float, composed: bool, *, realtime: bool = True
) -> dict[str, Usage]:
    """Run the graph for so long (by this machine's time, in lockstep, too) and record it; what each process took."""
    setting = Setting("classic", "pick_moving", _profile_with_size(folder, size), graph=True, seed=0, realtime=realtime)
    run = GraphRun(setting, episodes=1000, bag=bag, composed=composed)
    with own_domain() as domain:
        plan = read(resource_path("launch", "sim.launch.xml"), run.arguments(folder / "results.jsonl", domain))
        said: list[Line] = []
        with Runner(plan, log_dir=folder, scratch=folder, sink=said.append) as runner:
            _await_active(runner, said)
            _require_running(runner, _SETTLE_S)
            with ProcessWatch({name: process.pid for name, process in runner.processes.items()}) as watch:
                _require_running(runner, seconds)
    return watch.usage()


def _await_active(runner: Runner, said: Sequence[Line]) -> None:
    """Until the manager says that all nodes are active; DeadlineError where that takes too long."""
    deadline_s = time.monotonic() + _START_UP_S
    seen = 0
    while True:
        lines = said[seen:]
        seen += len(lines)
        if any("lifecycle_up" in line.text for line in lines):
            return
        if time.monotonic() > deadline_s:
            raise DeadlineError("the graph comes up", _START_UP_S, ["lifecycle_up from the manager"])
        _require_running(runner, 0.2)


def _require_running(runner: Runner, seconds: float) -> None:
    """Let it run; an end before the time is up is an error that names the process."""
    try:
        outcome = runner.wait(seconds)
    except DeadlineError:
        return
    raise TetherError(f"the graph ended during the benchmark: {outcome.failure or outcome.first_exited}")


def _profile_with_size(folder: Path, size: tuple[int, int]) -> str:
    real = profile("real")
    camera = dataclasses.replace(real.camera, width=size[0], height=size[1])
    made = dataclasses.replace(real, name=f"real {size[0]}x{size[1]}", camera=camera)
    return write_profile(folder / "profile.yaml", made)


def _metrics(way: Way, usage: Mapping[str, Usage]) -> dict[str, Metric]:
    lists = {
        "sensor_to_command_ms": way.sensor_to_command_ms,
        "decision_to_command_ms": way.decision_to_command_ms,
        "wait_for_decision_ms": way.wait_ms,
        "fusion_ms": way.fusion_ms,
        "policy_ms": way.policy_ms,
        "picture_decode_and_detect_ms": way.decode_ms,
        "decision_to_proposal_ms": way.decision_to_proposal_ms,
        "proposal_to_gate_ms": way.proposal_to_gate_ms,
        "camera_age_ms": way.camera_age_ms,
        "decision_interval_ms": way.interval_ms,
    }
    metrics = {name: Metric.of(values, "ms") for name, values in lists.items() if values}
    total = way.decisions + way.missed
    metrics["holds"] = Metric.of([float(way.holds.total())], "holds")
    metrics["missed_decisions"] = Metric.of([way.missed / total if total else 1.0], "share")
    for name, used in usage.items():
        metrics[f"cpu_{name}"] = Metric.of([used.cores], "cores")
        metrics[f"rss_{name}"] = Metric.of([used.rss_mib], "MiB")
    metrics["cpu_total"] = Metric.of([sum(used.cores for used in usage.values())], "cores")
    return metrics


def _notes(way: Way, size: tuple[int, int], composed: bool) -> tuple[str, ...]:
    return (
        f"pictures of {size[0]}x{size[1]} at {profile('real').camera.rate_hz:g} Hz, IMU 200 Hz, decisions 20 Hz, "
        f"recorder on, world rendered on the same CPU, {'composed' if composed else 'one process a stage'}",
        f"{way.decisions} decisions, {way.missed} missed; {way.features} of {way.pictures} pictures looked at, "
        f"{way.pictures_missed} never taken: a newer one stood in their place, or the transport lost them",
        "the gate held " + (", ".join(f"{n} x {why}" for why, n in way.holds.most_common()) or "never"),
        "sensor_to_command: newest sample used arrived at fusion to first gated command of that decision; "
        "wait_for_decision is the part of it spent waiting for the next decision, decision_to_command the rest",
    )


def _search_peak(folder: Path, bag: Path, source: Way, composed: bool) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """Play what was recorded at different speeds; see `tether.bench.peak`."""
    progress = Progress(PLAYS_MAX, "plays at most")

    def play(speed: float) -> Play:
        done = _play(folder, bag, source, speed, composed)
        progress.step(done.note())
        return done

    return search(play, profile("real").camera.rate_hz, 1e9 / IMU_PERIOD_NS, _metrics)


def _play(folder: Path, bag: Path, source: Way, speed: float, composed: bool) -> Play:
    replayed, report = folder / f"played-at-{speed:g}", folder / "played.json"
    arguments = {
        "bag": str(bag),
        "rate": f"{speed:g}",
        "record": "true",
        "record_to": str(replayed),
        "report": str(report),
        "composed": "true" if composed else "false",
    }
    with own_domain() as domain:
        plan = read(resource_path("launch", "replay.launch.xml"), {**arguments, "domain": str(domain)})
        said: list[Line] = []
        with Runner(plan, log_dir=folder, scratch=folder, sink=said.append) as runner:
            _await_active(runner, said)
            with ProcessWatch({name: process.pid for name, process in runner.processes.items()}) as watch:
                runner.wait(_PLAY_S)
    way = read_way(replayed)
    shutil.rmtree(replayed)
    played = json.loads(report.read_text(encoding="utf-8"))["played"]
    report.unlink()
    return Play(source, way, watch.usage(), speed, played["speed"])
