"""`tether bench encoder`: encoder and policy of the student on our runtime layer, on torch, on bare ONNX Runtime.

One decision is the whole way through the models, batch 1: a picture through the eyes, their tokens with the other
modalities through fusion (which holds the IMU encoder), its features through the policy.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.arguments import not_negative, positive
from tether.bench.encoder_sides import PARTS, SIDES, SUMMED, Part, Side, make_side
from tether.bench.figures import Benchmark, Metric, Ratio
from tether.contracts import U8
from tether.errors import Fault, InvalidInputError
from tether.models.store import Model
from tether.runtimes.selection import TOLERANCE
from tether.runtimes.trial import largest_deviation, sample_inputs
from tether.student.models import FUSION, POLICY
from tether.student.naming import parse_name
from tether.vision.contract import BOX_OUT, CONFIDENCE_OUT
from tether.vision.eyes import EyesConfig
from tether.vision.geometry import HEIGHT, WIDTH, decode, suppress
from tether.vision.resize import area_resize

SHIPPED, REFERENCE_SIDES = SIDES[0], SIDES[1:]
SAMPLES = 8
"""Inputs on which the sides are compared."""
CALLS = 3
"""Timed calls of a side in its turn, after one that wakes its threads; their median counts."""
REST_S = 0.05
"""Between turns: threads of the library before that still spin in wait for work give the cores back."""
_FRAME = (480, 640)
_LINKS = {Part.FUSION: ("tokens", Part.EYES, "tokens"), Part.POLICY: ("features", Part.FUSION, "features")}
"""Part → its input that an earlier part gives, which part, and the name of that output."""

Tensors = dict[str, NDArray[Any]]
Sample = dict[Part, Tensors]


@dataclass(frozen=True, eq=False)
class Way:
    """One decision through the models: outputs and seconds of each part, and seconds from picture to action.

    cpu_s: what all threads of this process spent on it, which other load of the machine changes less.
    """

    outputs: dict[Part, Tensors]
    took_s: dict[Part, float]
    whole_s: float
    cpu_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="of each side (default %(default)s)")
    parser.add_argument("--rounds", type=positive, default=60, metavar="N", help="turns of each side (%(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, help="of inputs and order of turns (default 0)")
    parser.add_argument("--policy", default="student", help="student, or student@FOLDER (default %(default)s)")
    parser.add_argument(
        "--leave-out", action="append", default=[], choices=REFERENCE_SIDES, metavar="SIDE",
        help=f"do not measure against one of {', '.join(REFERENCE_SIDES)}",
    )  # fmt: skip


def measure(arguments: argparse.Namespace) -> Benchmark:
    """All sides in turn, in an order that is drawn anew each round.

    Raises InvalidInputError where a side's library is missing, or its outputs are not those of the shipped path.
    """
    load = os.getloadavg()[0]
    models = _models(arguments.policy)
    names = [name for name in SIDES if name not in arguments.leave_out]
    sides = [make_side(name, models, arguments.threads) for name in names]
    samples = [_sample(models, arguments.seed + i) for i in range(SAMPLES)]
    deviations = compare(sides, samples)
    ways = _in_drawn_turns(sides, samples, arguments.rounds, arguments.seed)
    metrics = {}
    for side in sides:
        metrics[f"{side.name}_ms"] = Metric.of([1e3 * _whole_s(side, way) for way in ways[side.name]], "ms")
        for part in PARTS:
            metrics[f"{side.name}_{part.value}_ms"] = Metric.of([1e3 * w.took_s[part] for w in ways[side.name]], "ms")
        metrics[f"{side.name}_cpu_ms"] = Metric.of([1e3 * way.cpu_s for way in ways[side.name]], "ms of CPU")
    for name, values in deviations.items():
        metrics[f"{name}_deviation"] = Metric.of(values, "relative RMS")
    metrics |= _around_the_models(ways[SHIPPED][0], arguments.rounds)
    ratios = _ratios(sides, ways)
    best = ", ".join(f"{s.name} {1e3 * min(_whole_s(s, w) for w in ways[s.name]):.2f}" for s in sides)
    notes = (
        f"batch 1, {arguments.threads} threads; {SHIPPED}: {sides[0].about}",
        f"every output within {TOLERANCE:g} (relative RMS over {SAMPLES} inputs) of the shipped path's",
        "torch computes the int8 eyes in float32: the file's weights, activations clamped but not rounded",
        f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores",
        "…_cpu_ms: processor time of all threads, spinning included; other load changes it far less than times",
        f"fastest decision of each side, ms: {best}",
    )
    return Benchmark("encoder", metrics, ratios, notes)


def compare(sides: Sequence[Side], samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Relative RMS difference of each output of each side from the first side's, over all samples.

    Raises InvalidInputError naming every side, part and output beyond the tolerance.
    """
    found = {side.name: [way_of(side, sample).outputs for sample in samples] for side in sides}
    expected = found[sides[0].name]
    faults, deviations = [], {}
    for side in sides[1:]:
        values = []
        for part, tensors in expected[0].items():
            for name in tensors:
                pair = [[{name: outputs[part][name]} for outputs in of] for of in (expected, found[side.name])]
                values.append(largest_deviation(*pair))
                if not values[-1] <= TOLERANCE:
                    where = f"{side.name}: {part.value}, {name}"
                    faults.append(Fault(where, f"{values[-1]:.3g} off", f"at most {TOLERANCE:g} of {sides[0].name}'s"))
        deviations[side.name] = values
    if faults:
        fix = "the sides do not compute the same, so their times are not comparable: report this with the machine"
        raise InvalidInputError("bench encoder", faults, fix)
    return deviations


def way_of(side: Side, sample: Sample) -> Way:
    """One decision: each part is given its sample, and what the part before gave."""
    outputs: dict[Part, Tensors] = {}
    took_s = {}
    spent, start = time.process_time(), time.perf_counter()
    for part in PARTS:
        inputs = dict(sample[part])
        if part in _LINKS:
            name, source, output = _LINKS[part]
            if name in inputs:  # a student without tokens takes none
                inputs[name] = outputs[source][output]
        before = time.perf_counter()
        outputs[part] = side.calls[part](inputs)
        took_s[part] = time.perf_counter() - before
    return Way(outputs, took_s, time.perf_counter() - start, time.process_time() - spent)


def _models(policy: str) -> dict[Part, Model]:
    name = parse_name(policy)
    folders = {
        Part.EYES: name.eyes_folder(),
        Part.FUSION: name.model_folder(FUSION),
        Part.POLICY: name.model_folder(POLICY),
    }
    return {part: Model.read(folder) for part, folder in folders.items()}


def _sample(models: dict[Part, Model], seed: int) -> Sample:
    return {part: sample_inputs(model.manifest.inputs, seed) for part, model in models.items()}


def _in_drawn_turns(sides: Sequence[Side], samples: Sequence[Sample], rounds: int, seed: int) -> dict[str, list[Way]]:
    """Way of each side in each round: the one of median length of its turn."""
    ways: dict[str, list[Way]] = {side.name: [] for side in sides}
    rng = np.random.default_rng(seed)
    for i in range(rounds):
        sample = samples[i % len(samples)]
        for place in rng.permutation(len(sides)):
            side = sides[place]
            time.sleep(REST_S)
            way_of(side, sample)
            turn = sorted((way_of(side, sample) for _ in range(CALLS)), key=lambda way: _whole_s(side, way))
            ways[side.name].append(turn[CALLS // 2])
    return ways


def _ratios(sides: Sequence[Side], ways: dict[str, list[Way]]) -> dict[str, Ratio]:
    """Of the shipped path against each other side, round by round: in time, and in processor time."""
    times_s = {side.name: [_whole_s(side, way) for way in ways[side.name]] for side in sides}
    cpu_s = {side.name: [way.cpu_s for way in ways[side.name]] for side in sides}
    ratios = {}
    for suffix, spent in (("", times_s), ("_cpu", cpu_s)):
        for side in sides[1:]:
            ratios[f"{SHIPPED}_vs_{side.name}{suffix}"] = Ratio.of(spent[SHIPPED], spent[side.name], side.about)
    return ratios


def _whole_s(side: Side, way: Way) -> float:
    """Seconds of a decision: of a sum of bare calls nothing counts but the calls."""
    return sum(way.took_s.values()) if side.name in SUMMED else way.whole_s


def _around_the_models(way: Way, rounds: int) -> dict[str, Metric]:
    """What the eyes do before and after their model, which no side is charged with: resizing, boxes."""
    rng = np.random.default_rng(0)
    frame: U8 = rng.integers(0, 256, (*_FRAME, 3), np.uint8)
    config = EyesConfig()
    confidence, box = (way.outputs[Part.EYES][spec.name][0] for spec in (CONFIDENCE_OUT, BOX_OUT))

    def boxes() -> None:
        suppress(decode(confidence, box, config.confidence, 4 * config.detections_max), config.iou)

    resize = area_resize(*_FRAME, HEIGHT, WIDTH)
    return {
        "resize_640x480_ms": Metric.of(_times_ms(lambda: resize(frame), rounds), "ms"),
        "boxes_ms": Metric.of(_times_ms(boxes, rounds), "ms"),
    }


def _times_ms(call: Callable[[], object], rounds: int) -> list[float]:
    times = []
    for _ in range(1 + rounds):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times[1:]
