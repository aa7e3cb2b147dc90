"""Which runtime runs a model in this process.

$TETHER_RUNTIME names it, for all models of a process: a `RuntimeName`, or `auto` for the fastest one on this machine
within the tolerance. A runtime other than onnxruntime runs a model only after a trial with that model, in a process of
its own, has ended well on this machine. `fixed` names runtimes model by model instead, for a replay's check.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from tether.errors import Fault, InvalidInputError
from tether.models.errors import ModelRefusedError
from tether.models.store import Model
from tether.runtimes.background import try_in_background
from tether.runtimes.fallback import WithFallback
from tether.runtimes.interface import REFERENCE, Prepared, Runtime, RuntimeName, refused
from tether.runtimes.memory import Trial, key, locked, read_book, remember
from tether.runtimes.registry import runtime
from tether.runtimes.tensorrt.runtime import TensorRt
from tether.runtimes.timeline import ByStamp, Timeline
from tether.runtimes.trial import TIMEOUT_S, try_runtime

_LOG = logging.getLogger(__name__)
RUNTIME_VARIABLE = "TETHER_RUNTIME"
TOLERANCE = 0.02
"""Largest relative RMS difference of any output from the reference's that `auto` accepts."""
MARGIN = 1.1
"""How many times as fast as the reference a runtime must be in its trial, for `auto` to leave the reference."""
Trier = Callable[[RuntimeName, Model, int, float], Trial]
_FIXED: ContextVar[Mapping[str, RuntimeName | Timeline] | None] = ContextVar("fixed runtimes", default=None)


class Automatic(Enum):
    """The choice that is made by measuring."""

    AUTO = "auto"


Choice = RuntimeName | Automatic


@dataclass(frozen=True)
class Decision:
    """What runs a model and why."""

    runtime: RuntimeName
    why: str


def requested() -> Choice:
    """What $TETHER_RUNTIME asks for, onnxruntime where it is unset. Raises InvalidInputError for any other word."""
    word = os.environ.get(RUNTIME_VARIABLE, REFERENCE.value)
    known: list[Choice] = [*RuntimeName, *Automatic]
    for choice in known:
        if choice.value == word:
            return choice
    names = ", ".join(choice.value for choice in known)
    raise InvalidInputError("runtime", [Fault(f"${RUNTIME_VARIABLE}", repr(word), f"one of {names}")])


@contextmanager
def fixed(runtimes: Mapping[str, RuntimeName | Timeline]) -> Iterator[None]:
    """Inside, a model whose SHA-256 is in `runtimes` runs on the one named there or not at all; others as ever.

    A timeline names several, one after the other.
    """
    token = _FIXED.set(runtimes)
    try:
        yield
    finally:
        _FIXED.reset(token)


def prepare(model: Model, threads: int, trier: Trier = try_runtime) -> Prepared:
    """Load a model with the runtime that is chosen here.

    Raises ModelRefusedError (RUNTIME) where the one asked for cannot run it. `auto`, and `tensorrt` while its engine is
    being built, give the reference instead, and say so in the log and in the label.
    """
    named = (_FIXED.get() or {}).get(model.manifest.sha256)
    if isinstance(named, Timeline):
        ran = dict.fromkeys(named.runtimes)
        return ByStamp(named, {name: _prepare_fixed(name, model, threads, trier) for name in ran})
    if named is not None:
        return _prepare_fixed(named, model, threads, trier)
    decision = decide(model, threads, trier)
    if decision.runtime is REFERENCE:
        return runtime(REFERENCE).prepare(model, threads)
    chosen = _of_node(decision.runtime)
    try:
        return WithFallback(chosen.prepare(model, threads), lambda: runtime(REFERENCE).prepare(model, threads))
    except ModelRefusedError as error:
        if not _may_fall_back(requested()):
            raise
        _LOG.warning("%s is left for %s: %s", decision.runtime.value, REFERENCE.value, " ".join(str(error).split()))
        if decision.runtime is RuntimeName.TENSORRT:
            try_in_background(RuntimeName.TENSORRT, model, threads, trier)
        return runtime(REFERENCE).prepare(model, threads)


def _prepare_fixed(name: RuntimeName, model: Model, threads: int, trier: Trier) -> Prepared:
    _require_trial(name, model, threads, trier)
    return _of_node(name).prepare(model, threads)


def decide(model: Model, threads: int, trier: Trier = try_runtime) -> Decision:
    """Name the runtime of a model, after the trials that it takes. Raises ModelRefusedError (RUNTIME)."""
    choice = requested()
    if choice is REFERENCE:
        return Decision(REFERENCE, "asked for")
    if isinstance(choice, Automatic):
        return _fastest(model, threads, trier)
    if choice is RuntimeName.TENSORRT:
        return _tensorrt(model, threads, trier)
    trial = _require_trial(choice, model, threads, trier)
    if trial.deviation > TOLERANCE:
        _LOG.warning(
            "%s differs from %s by %.2g on model %s; `auto` would not take it (%.2g)",
            choice.value, REFERENCE.value, trial.deviation, model.manifest.kind, TOLERANCE,
        )  # fmt: skip
    return Decision(choice, "asked for")


def _require_trial(name: RuntimeName, model: Model, threads: int, trier: Trier) -> Trial:
    """A trial that ended well; the reference needs none, and the engine of tensorrt is what is left of its trial."""
    if name in (REFERENCE, RuntimeName.TENSORRT):
        return Trial(name)
    trial = _known_or_tried([name], model, threads, trier)[name]
    if not trial.ok:
        fix = f"unset {RUNTIME_VARIABLE}, or see `tether runtimes` for what works here"
        raise refused(name.value, trial.fault, "a trial that ends well", f"model {model.manifest.kind}", fix)
    return trial


def _of_node(name: RuntimeName) -> Runtime:
    """The runtime as a node has it: an engine is loaded there, never built."""
    return TensorRt(may_build=False) if name is RuntimeName.TENSORRT else runtime(name)


def candidates() -> list[RuntimeName]:
    """Runtimes other than the reference whose library may be here; nothing is imported to find out."""
    found: list[RuntimeName] = []
    if find_spec("onnxruntime") is not None and _has_gpu_build():
        found += [RuntimeName.ONNXRUNTIME_CUDA, RuntimeName.ONNXRUNTIME_TENSORRT]
    if find_spec("openvino") is not None:
        found.append(RuntimeName.OPENVINO)
    if find_spec("tensorrt") is not None:
        found.append(RuntimeName.TENSORRT)
    return found


def judge(trials: Mapping[RuntimeName, Trial]) -> Decision:
    """The fastest runtime that ran, within the tolerance and by the margin; the reference where there is none."""
    reasons = []
    best: tuple[float, RuntimeName] = (MARGIN, REFERENCE)
    for name, trial in trials.items():
        if not trial.ok:
            reasons.append(f"{name.value}: {trial.fault}")
            continue
        gain = trial.reference_ms / trial.median_ms if trial.median_ms > 0.0 else 0.0
        figures = f"{gain:.2f} x as fast, {trial.deviation:.2g} off"
        if trial.deviation > TOLERANCE:
            reasons.append(f"{name.value}: {figures}, tolerance {TOLERANCE:g}")
        elif gain < best[0]:
            reasons.append(f"{name.value}: {figures}")
        else:
            if best[1] is not REFERENCE:
                reasons.append(f"{best[1].value}: {best[0]:.2f} x as fast")
            best = (gain, name)
    others = "; ".join(reasons) or "nothing else is installed"
    if best[1] is REFERENCE:
        return Decision(REFERENCE, others)
    return Decision(best[1], f"{best[0]:.2f} x as fast as {REFERENCE.value}" + (f"; {others}" if reasons else ""))


def _fastest(model: Model, threads: int, trier: Trier) -> Decision:
    names = candidates()
    quick = [name for name in names if name is not RuntimeName.TENSORRT]
    trials = _known_or_tried(quick, model, threads, trier)
    if RuntimeName.TENSORRT in names:
        built = read_book().trials.get(key(model.manifest.sha256, RuntimeName.TENSORRT, threads))
        if built is None:
            try_in_background(RuntimeName.TENSORRT, model, threads, trier)
            trials[RuntimeName.TENSORRT] = Trial(RuntimeName.TENSORRT, "its engine is being built, for the next start")
        else:
            trials[RuntimeName.TENSORRT] = built
    return judge(trials)


def _tensorrt(model: Model, threads: int, trier: Trier) -> Decision:
    trial = read_book().trials.get(key(model.manifest.sha256, RuntimeName.TENSORRT, threads))
    if trial is not None and trial.ok:
        return Decision(RuntimeName.TENSORRT, "asked for")
    if trial is None:
        try_in_background(RuntimeName.TENSORRT, model, threads, trier)
        why = "the engine of tensorrt is being built, for the next start"
    else:
        why = f"tensorrt: {trial.fault}"
    _LOG.warning("model %s runs on %s: %s", model.manifest.kind, REFERENCE.value, why)
    return Decision(REFERENCE, why)


def _known_or_tried(names: Sequence[RuntimeName], model: Model, threads: int, trier: Trier) -> dict[RuntimeName, Trial]:
    """Trials of some runtimes; the missing ones are made now, by one process at a time, and remembered."""
    keys = {name: key(model.manifest.sha256, name, threads) for name in names}
    known = read_book().trials
    if all(entry in known for entry in keys.values()):
        return {name: known[entry] for name, entry in keys.items()}
    try:
        with locked():
            trials = {}
            for name, entry in keys.items():
                trial = read_book().trials.get(entry)
                if trial is None:
                    trial = trier(name, model, threads, TIMEOUT_S)
                    remember(entry, trial)
                trials[name] = trial
            return trials
    except OSError as error:
        _LOG.warning("runtimes cannot be remembered here and are tried for this process alone: %s", error)
        return {name: trier(name, model, threads, TIMEOUT_S) for name in names}


def _may_fall_back(choice: Choice) -> bool:
    return isinstance(choice, Automatic) or choice is RuntimeName.TENSORRT


def _has_gpu_build() -> bool:
    try:
        return bool(version("onnxruntime-gpu"))
    except PackageNotFoundError:
        return False
