"""Train the alternatives, export them, and measure of each what a choice goes by: error, time of a call, success."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tether import __version__
from tether.alternatives.collect import ACTOR, Collection, Decisions
from tether.alternatives.features import layout_sha256
from tether.alternatives.models import (
    LAYOUT,
    PRIMITIVES,
    Alternative,
    Kind,
    model_folder,
    model_kind,
    open_alternative,
    tensors,
)
from tether.alternatives.networks import CodebookConfig, DiffusionConfig, train_codebook, train_diffusion
from tether.alternatives.selection import EPISODES, ERROR, LATENCY_P50, LATENCY_P99, SUCCESSES
from tether.assembly import profile, skills, task
from tether.contracts import F32, F64, Primitive
from tether.errors import Fault, InvalidInputError
from tether.models.manifest import Manifest, read_manifest
from tether.models.store import UNSEALED, Model, save_model
from tether.models.torch_export import IR_VERSION, OPSET, to_onnx
from tether.robot.roles import COMMAND_JOINTS
from tether.student.labels import Scaling

_HELD_OUT = 0.2
"""Share of the episodes, the last ones, that errors are measured on."""
_CALLS = 3000
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Training:
    """What fully determines the models, besides versions and machine."""

    collection: Collection
    codebook: CodebookConfig = field(default_factory=CodebookConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)
    seed: int = 0


def split(decisions: Decisions) -> tuple[Decisions, Decisions]:
    """Decisions to learn from and those held out, episode by episode; raises InvalidInputError where there are none."""
    episodes = np.unique(decisions.episode)
    first = episodes[len(episodes) - max(1, round(_HELD_OUT * len(episodes)))] if len(episodes) > 1 else -1
    held = decisions.episode >= first
    if first < 0 or held.all():
        fault = Fault("episodes", f"decisions in {len(episodes)}", "2 or more: one is held out")
        raise InvalidInputError("training of alternatives", [fault], "collect more: --collect-episodes")
    return _rows(decisions, ~held), _rows(decisions, held)


def train(
    training: Training, data: dict[Primitive, Decisions], root: Path, on_model: Callable[[str], None]
) -> dict[str, Any]:
    """Train and export every model below `root`; returns errors and times by primitive, of references, too."""
    figures: dict[str, Any] = {}
    for primitive in PRIMITIVES:
        seen, held = split(data[primitive])
        table = {name: errors(primitive, guess, held) for name, guess in _references(seen, held).items()}
        for kind in Kind:
            started_s = time.monotonic()
            network = _network(training, kind, seen)
            took_s = time.monotonic() - started_s
            _export(training, network, kind, primitive, root)
            alternative = open_alternative(root, kind, primitive, skills())
            _check(network, alternative, held)
            row = {**_held_out(alternative, primitive, held), **latency(alternative, held), "train_s": round(took_s, 1)}
            keep_scores(root, kind, primitive, {name: row[name] for name in (ERROR, LATENCY_P50, LATENCY_P99)})
            table[kind.value] = row
            on_model(model_kind(kind, primitive))
        figures[primitive.name.lower()] = {"decisions": len(seen.state), "held_out": len(held.state), "by": table}
    return figures


def errors(primitive: Primitive, guess: F32, held: Decisions) -> dict[str, Any]:
    """Root mean square errors: of all scaled parameters (`error`), and of each in its own unit (`rms`)."""
    off: F64 = np.clip(guess, -1.0, 1.0).astype(np.float64) - held.params
    spec, half = skills()[primitive], Scaling(skills()).half[primitive]
    rms = {p.name: float(np.sqrt(np.mean((off[:, i] * half[i]) ** 2))) for i, p in enumerate(spec.params)}
    return {ERROR: float(np.sqrt(np.mean(off**2))), "rms": rms}


def latency(alternative: Alternative, held: Decisions) -> dict[str, float]:
    """Microseconds of one call on the steady clock, one after the other, after a warm-up of 200."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((_CALLS, held.params.shape[1])).astype(np.float32)
    times = []
    for i in range(_CALLS):
        state = held.state[i % len(held.state)]
        begun = time.perf_counter_ns()
        alternative.scaled(state, noise[i])
        times.append(time.perf_counter_ns() - begun)
    p50, p99 = np.percentile(times[200:], (50, 99)) * 1e-3
    return {LATENCY_P50: round(float(p50), 1), LATENCY_P99: round(float(p99), 1)}


def keep_scores(root: Path, kind: Kind, primitive: Primitive, scores: dict[str, float]) -> None:
    """Add figures to the manifest of a model."""
    folder = model_folder(root, kind, primitive)
    model = Model.read(folder)
    save_model(folder, model.data, dataclasses.replace(model.manifest, scores={**model.manifest.scores, **scores}))


def keep_success(root: Path, kind: Kind, successes: int, episodes: int) -> None:
    """Add to the manifests of an alternative in how many episodes it succeeded."""
    for primitive in PRIMITIVES:
        keep_scores(root, kind, primitive, {SUCCESSES: successes, EPISODES: episodes})


def model_hashes(root: Path) -> dict[str, str]:
    """Kind of each model → SHA-256 of its file."""
    folders = [(kind, primitive) for kind in Kind for primitive in PRIMITIVES]
    return {model_kind(k, p): read_manifest(model_folder(root, k, p)).sha256 for k, p in folders}


def _network(training: Training, kind: Kind, seen: Decisions) -> nn.Module:
    if kind is Kind.CODEBOOK:
        return train_codebook(seen, training.codebook, training.seed)
    return train_diffusion(seen, training.diffusion, training.seed)


def _export(training: Training, network: nn.Module, kind: Kind, primitive: Primitive, root: Path) -> None:
    c = training.collection
    spec = tensors(kind, len(skills()[primitive].params))
    manifest = Manifest(
        kind=model_kind(kind, primitive),
        version="1",
        model_file=f"{kind.value}.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=spec.inputs,
        outputs=spec.outputs,
        joint_order=COMMAND_JOINTS,
        skills_sha256=skills().sha256,
        trained_on={
            f"task {c.task}": task(c.task).sha256,
            f"profile {c.profile}": profile(c.profile).sha256,
            "episodes": f"{c.episodes} of {ACTOR} from seed {c.seed}",
            LAYOUT: layout_sha256(),
        },
        seed=training.seed,
        versions={"tether": __version__, "torch": torch.__version__},
    )
    save_model(model_folder(root, kind, primitive), to_onnx(network, spec.inputs, spec.outputs), manifest)


def _check(network: nn.Module, alternative: Alternative, held: Decisions) -> None:
    """Raise InvalidInputError where the exported model is not what torch gives."""
    noise = _noise(held)
    for state, drawn in zip(held.state[:64], noise, strict=False):
        given = [torch.from_numpy(state[None])]
        if alternative.kind is Kind.DIFFUSION:
            given.append(torch.from_numpy(drawn[None]))
        with torch.no_grad():
            expected = network(*given)[0].numpy()
        off = float(np.abs(alternative.scaled(state, drawn) - expected).max())
        if not off <= _TOLERANCE:
            fault = Fault(alternative.session.manifest.kind, f"{off:g} off", f"at most {_TOLERANCE:g} of torch's")
            raise InvalidInputError("export", [fault], "report the versions of torch and onnxruntime")


def _held_out(alternative: Alternative, primitive: Primitive, held: Decisions) -> dict[str, Any]:
    pairs = zip(held.state, _noise(held), strict=True)
    return errors(primitive, np.stack([alternative.scaled(state, noise) for state, noise in pairs]), held)


def _references(seen: Decisions, held: Decisions) -> dict[str, F32]:
    """What both alternatives have to be held against: the mean of the labels, and linear least squares."""
    bias = np.ones((len(seen.state), 1), np.float32)
    weights, *_ = np.linalg.lstsq(np.hstack((seen.state, bias)), seen.params, rcond=None)
    linear = np.hstack((held.state, np.ones((len(held.state), 1), np.float32))) @ weights
    return {"mean": np.broadcast_to(seen.params.mean(axis=0), held.params.shape), "least_squares": linear}


def _noise(held: Decisions) -> F32:
    noise: F32 = np.random.default_rng(1).standard_normal(held.params.shape).astype(np.float32)
    return noise


def _rows(decisions: Decisions, which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Decisions:
    return Decisions(decisions.state[which], decisions.params[which], decisions.episode[which])
