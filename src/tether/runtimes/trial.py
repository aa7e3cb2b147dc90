"""Tries a runtime with a model in a process of its own: a library that crashes takes only that process with it.

`python -m tether.runtimes.trial REQUEST ANSWER` is that process; both are JSON files.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.config import bounded, parse
from tether.errors import TetherError
from tether.models.manifest import Manifest, TensorSpec
from tether.models.store import Model
from tether.runtimes.interface import REFERENCE, Prepared, RuntimeName
from tether.runtimes.memory import Trial
from tether.runtimes.registry import runtime
from tether.threads import VARIABLES

SAMPLES = 4
ROUNDS = 15
TIMEOUT_S = 90.0
BUILD_TIMEOUT_S = 1800.0
"""Where the trial builds a TensorRT engine, which takes minutes."""
_CHILDREN: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Request:
    """What is to be tried. model_file: the model's bytes."""

    runtime: RuntimeName
    manifest: Manifest
    model_file: Path
    threads: int = bounded(1, 64)


def try_runtime(name: RuntimeName, model: Model, threads: int, timeout_s: float = TIMEOUT_S) -> Trial:
    """Run `model` on a runtime in a process of its own; whatever happens there comes back as a `Trial`."""
    with tempfile.TemporaryDirectory(prefix="tether-trial-") as folder:
        ask, answer, file = (Path(folder) / part for part in ("request.json", "answer.json", "model.onnx"))
        file.write_bytes(model.data)
        request = Request(name, model.manifest, file, threads)
        ask.write_text(json.dumps(dataclasses.asdict(request), default=str), encoding="utf-8")
        command = [sys.executable, "-m", "tether.runtimes.trial", str(ask), str(answer)]
        environment = {**os.environ, **dict.fromkeys(VARIABLES, str(threads))}
        try:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        except OSError as error:
            return Trial(name, f"its process did not start: {error}")
        _CHILDREN.add(process)
        try:
            said = process.communicate(timeout=timeout_s)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Trial(name, f"no answer within {timeout_s:g} s")
        finally:
            _CHILDREN.discard(process)
        return read_answer(name, answer, process.returncode, said.decode(errors="replace"))


@atexit.register
def _end_children() -> None:
    """A process that ends takes its unfinished trials with it."""
    for process in list(_CHILDREN):
        process.kill()


def read_answer(name: RuntimeName, answer: Path, code: int, said: str) -> Trial:
    """The trial that a process left behind, or what is known of its end."""
    if code < 0:
        return Trial(name, f"its process crashed with signal {-code}")
    try:
        return parse(json.loads(answer.read_text(encoding="utf-8")), Trial, "trial")
    except (OSError, ValueError, RecursionError, TetherError):
        last = (said.strip().splitlines() or ["nothing said"])[-1]
        return Trial(name, f"its process ended with status {code}: {last[:200]}")


def measure(request: Request) -> Trial:
    """Compare the runtime with the reference, side by side, in this process."""
    model = Model(request.manifest, request.model_file.read_bytes())
    try:
        reference = runtime(REFERENCE).prepare(model, request.threads)
        candidate = reference
        if request.runtime is not REFERENCE:
            candidate = runtime(request.runtime).prepare(model, request.threads)
        samples = [sample_inputs(request.manifest.inputs, seed) for seed in range(SAMPLES)]
        deviation = largest_deviation(
            [outputs_of(reference, s) for s in samples], [outputs_of(candidate, s) for s in samples]
        )
        theirs, ours = _times_ms([reference.run, candidate.run])
    except TetherError as error:
        return Trial(request.runtime, " ".join(str(error).split())[:400])
    if not np.isfinite(deviation):
        return Trial(request.runtime, "it gives numbers that are not finite", candidate.label)
    return Trial(request.runtime, "", candidate.label, deviation, ours, theirs)


def sample_inputs(specs: Sequence[TensorSpec], seed: int) -> dict[str, NDArray[Any]]:
    """Inputs to compare runtimes on: pictures of patches, masks of 0 and 1, and other numbers of the order of 1."""
    rng = np.random.default_rng(seed)
    made: dict[str, NDArray[Any]] = {}
    for spec in specs:
        value: NDArray[Any]
        if spec.dtype.value == "uint8":
            patch = tuple(16 if n >= 32 else 1 for n in spec.shape)
            coarse = rng.integers(0, 256, [-(-n // p) for n, p in zip(spec.shape, patch, strict=True)])
            value = np.kron(coarse, np.ones(patch))[tuple(slice(n) for n in spec.shape)]
        elif spec.dtype.value == "float32" and "mask" not in spec.name:
            value = rng.normal(size=spec.shape)
        else:
            value = rng.integers(2, size=spec.shape)
        made[spec.name] = value.astype(spec.dtype.value)
    return made


def outputs_of(prepared: Prepared, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Copies of the outputs for some inputs."""
    for name, buffer in prepared.inputs.items():
        buffer[...] = inputs[name]
    prepared.run()
    return {name: buffer.copy() for name, buffer in prepared.outputs.items()}


def largest_deviation(expected: Sequence[dict[str, NDArray[Any]]], found: Sequence[dict[str, NDArray[Any]]]) -> float:
    """Of all outputs, the largest RMS of the difference over the RMS of what is expected, over all samples."""
    worst = 0.0
    for name in expected[0]:
        a = np.stack([sample[name] for sample in expected]).astype(np.float64)
        b = np.stack([sample[name] for sample in found]).astype(np.float64)
        scale = float(np.sqrt(np.mean(a**2)))
        off = float(np.sqrt(np.mean((a - b) ** 2)))
        relative = off / max(scale, 1e-6)
        worst = relative if not relative <= worst else worst
    return worst


def _times_ms(calls: Sequence[Callable[[], None]]) -> list[float]:
    """Median of each call in ms, measured in turn after a warm-up."""
    times: list[list[float]] = [[] for _ in calls]
    for i in range(3 + ROUNDS):
        for call, kept in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if i >= 3:
                kept.append(1e3 * (time.perf_counter() - start))
    return [float(np.median(kept)) for kept in times]


def main(arguments: Sequence[str]) -> int:
    """The process of a trial: read the request, measure, leave the answer."""
    ask, answer = map(Path, arguments)
    request = parse(json.loads(ask.read_text(encoding="utf-8")), Request, str(ask))
    trial = measure(request)
    answer.write_text(json.dumps(dataclasses.asdict(trial), allow_nan=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
