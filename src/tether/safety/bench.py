"""What a tick of the gate costs: `tether bench gate`."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from tether.arguments import positive
from tether.bench.figures import Benchmark, Metric
from tether.contracts import F64, TICK_NS, Command, ImuSample, JointSample, Mode, SampleRef, Source, Stream, Verdict
from tether.errors import Fault, InvalidInputError
from tether.safety.gate_model import GateModel
from tether.safety.guards import FALLBACKS, Guards
from tether.safety.heartbeat import Beat
from tether.safety.settings import Check
from tether.safety.supervisor import Supervisor


def gate_cost(model: GateModel, ticks: int = 20_000, seed: int = 0) -> dict[str, Metric]:
    """Cost in µs of a tick, and (`…_inputs`) of taking its inputs: 2 IMU samples, joints, camera, command.

    Three loads: `tracking` (smooth set-points, all pass), `jumping` (set-points that every limit restricts)
    and `stopped` (no inputs at all). Wall time, and CPU time of the thread where the name ends in _cpu.
    Inputs are made before the clock starts. `guards`: what is asked beside the supervisor, at each tick.
    """
    if ticks < 100:
        raise InvalidInputError("gate_cost", [Fault("ticks", str(ticks), "at least 100")])
    metrics: dict[str, Metric] = {}
    for name, make in (("tracking", _tracking), ("jumping", _jumping)):
        wall, cpu, inputs = _timed(model, make(model, ticks, seed), ticks, seed)
        metrics[f"{name}_tick"] = _metric(wall)
        metrics[f"{name}_tick_cpu"] = _metric(cpu)
        metrics[f"{name}_inputs"] = _metric(inputs)
    wall, cpu, _ = _timed(model, None, ticks, seed)
    metrics["stopped_tick"] = _metric(wall)
    metrics["stopped_tick_cpu"] = _metric(cpu)
    metrics["guards"] = _metric(_guards_cost(model, ticks))
    return metrics


def _guards_cost(model: GateModel, ticks: int) -> list[int]:
    """Nanoseconds of asking the guards at each tick: loops that beat as they should, a breaker, two attestations."""
    vouched = Verdict(Check.STATE_INTEGRITY.value, 1.0)
    guards = Guards(model.settings, {"held": 0.5, "kept": 0.5}, (lambda: vouched, lambda: vouched), FALLBACKS)
    names = tuple(model.settings.heartbeats.loops)
    took = []
    for k in range(ticks):
        now_ns = k * TICK_NS
        if k % 5 == 0:
            guards.hear(Beat("composed", 1, names, (k,) * len(names)), now_ns)
        start = time.perf_counter_ns()
        guards.judge(now_ns, Mode.ACTIVE)
        took.append(time.perf_counter_ns() - start)
    return took


_Path = Callable[[int], tuple[F64, F64]]
"""Tick → positions and velocities asked for, both (n,)."""


def _free_pose(model: GateModel, seed: int) -> F64:
    """Of 500 random configurations away from the joints' limits the one with most room around the tool."""
    rng = np.random.default_rng(seed)
    low = np.array([max(axis.lower, -math.pi) for axis in model.axes])
    high = np.array([min(axis.upper, math.pi) for axis in model.axes])
    poses: F64 = low + rng.uniform(0.2, 0.8, (500, len(low))) * (high - low)
    workspace = model.workspace
    rooms = [0.0 if workspace is None else workspace.room(pose.tolist()) for pose in poses]
    best: F64 = poses[int(np.argmax(rooms))]
    return best


def _tracking(model: GateModel, ticks: int, seed: int) -> _Path:
    """Sines with random phases, at up to half of each joint's speed and 5 % of its range."""
    rng = np.random.default_rng(seed)
    start = _free_pose(model, seed)
    v_max = np.array([axis.v_max for axis in model.axes])
    size = 0.05 * np.array([min(axis.upper - axis.lower, 2.0) for axis in model.axes])
    rate = np.minimum(0.5 * v_max / size, 6.0)
    phase = rng.uniform(0.0, 2.0 * math.pi, len(start))

    def path(k: int) -> tuple[F64, F64]:
        angle = phase + rate * k * TICK_NS * 1e-9
        return start + size * np.sin(angle), size * rate * np.cos(angle)

    return path


def _jumping(model: GateModel, ticks: int, seed: int) -> _Path:
    """Somewhere else in, or a little outside, the joints' range every 5 ticks."""
    rng = np.random.default_rng(seed)
    half = 0.6 * np.array([min(axis.upper - axis.lower, 6.0) for axis in model.axes])
    goals = _free_pose(model, seed) + half * rng.uniform(-1.0, 1.0, (ticks // 5 + 2, len(half)))
    return lambda k: (goals[k // 5], np.zeros(len(half)))


def _timed(model: GateModel, path: _Path | None, ticks: int, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Nanoseconds of each tick (wall, CPU of the thread) and of taking each tick's inputs."""
    gate = Supervisor(model)
    gate.arm("benchmark")
    at = _free_pose(model, seed)
    wall: list[int] = []
    cpu: list[int] = []
    inputs: list[int] = []
    for k in range(ticks):
        now_ns = k * TICK_NS
        samples, command = _inputs(model, path, k, at)
        start = time.perf_counter_ns()
        if command is not None:
            gate.on_samples(samples, now_ns)
            gate.on_stream(SampleRef(Stream.CAMERA, now_ns, k), now_ns)
            gate.propose(command, now_ns)
        inputs.append(time.perf_counter_ns() - start)
        cpu_start, start = time.thread_time_ns(), time.perf_counter_ns()
        output = gate.tick(now_ns)
        end, cpu_end = time.perf_counter_ns(), time.thread_time_ns()
        wall.append(end - start)
        cpu.append(cpu_end - cpu_start)
        if output.command.joint_names:
            at = output.command.position
    return wall, cpu, inputs


def _inputs(
    model: GateModel, path: _Path | None, k: int, at: F64
) -> tuple[list[JointSample | ImuSample], Command | None]:
    if path is None:
        return [], None
    now_ns, zero = k * TICK_NS, np.zeros(len(at))
    accel = np.array([0.0, 0.0, 9.81])
    samples: list[JointSample | ImuSample] = [
        JointSample(SampleRef(Stream.JOINTS, now_ns, k), model.joint_names, at, zero),
        ImuSample(SampleRef(Stream.IMU, now_ns, 2 * k), np.zeros(3), accel),
        ImuSample(SampleRef(Stream.IMU, now_ns + 1, 2 * k + 1), np.zeros(3), accel),
    ]
    position, velocity = path(k)
    twist = np.array([0.1, 0.0, 0.2])
    names = model.joint_names
    return samples, Command(k, now_ns, k // 5, Source.CLASSIC, names, position, velocity, twist)


def _metric(values_ns: list[int]) -> Metric:
    return Metric.of([ns * 1e-3 for ns in values_ns], "us")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--ticks", type=positive, default=20_000, help="ticks for each load (default: %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """`tether bench gate` for the robot of urdf/."""
    from tether.assembly import make_gate_model  # the whole library; a caller of gate_cost brings its own model

    metrics = gate_cost(make_gate_model("classic"), arguments.ticks)
    return Benchmark("gate", metrics, {}, ("the period of a tick is 10 ms; inputs are taken before it",))
