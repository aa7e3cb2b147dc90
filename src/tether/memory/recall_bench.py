"""How well places are found again: visual memory against text labels, on rendered scenes.

Protocol. Each scene is cubes of one size on the ground; it is visited twice, once to be remembered and once to be
asked for, with other light, gain, noise, camera mount and place of the base (`tether.world.scenes`). A question is
answered where the remembered visit of the very same scene is among the first k of all. *mixed*: one red cube and one to
four more of any of four colours, red among them. *alike*: all scenes have the same four cubes, as the task fetch has,
and differ only in where they lie.

Text is given the best of cases: labels are the truth and not what a detector made of it, written down anew from each
visit's own view. *class* names what there is and how often, *colour* what of which colour, *place* what of which colour
in which ninth of the ground before the robot (near, middle, far; left, middle, right). Likeness is the weighted Jaccard
index of the labels; among equals the order is chance, and the expectation over it is what is counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tether.agent.domain import Domain
from tether.assembly import ROBOT_FILE, profile, task
from tether.bench.figures import Metric, Ratio
from tether.contracts import F32, F64
from tether.memory.ledger import Entry, Ledger
from tether.memory.long_term import LongTermMemory
from tether.memory.visual import Aggregation, VisualMemory, sighting_body
from tether.resources import resource_path
from tether.robot.description import expand
from tether.vision.eyes import LearnedEyes

KS = (1, 5, 10)
_MORE_MAX = 4
_COLOURS = ("red", "green", "blue", "yellow")
_NEAR_M, _FAR_M, _SIDE_M = 0.23, 0.27, 0.037
"""Borders of the ninths: thirds of where cubes lie."""
_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Look:
    """One visit: tokens (48, 64), and its labels by the level of their detail."""

    tokens: F32
    labels: dict[str, Counter[str]]


def measure_recall(
    folder: Path, ledger: Callable[[], Ledger], domain: Domain, scenes: int, seed: int = 0
) -> tuple[dict[str, Metric], dict[str, Ratio]]:
    """Figures for both sets of scenes; the maps go through a real memory in `folder` with that ledger. Needs GL."""
    metrics: dict[str, Metric] = {}
    ratios: dict[str, Ratio] = {}
    eyes = LearnedEyes.load(resource_path("models", "eyes"))
    sha256 = eyes.session.manifest.sha256
    for name in ("mixed", "alike"):
        kept, asked = looks(eyes, name == "alike", scenes, seed)
        hits = {f"text_{level}": text_hits(kept, asked, level) for level in ("class", "colour", "place")}
        hits["visual_mean"] = _index_hits(domain, sha256, kept, asked)
        with LongTermMemory(folder, domain, commit="bench", ledger=ledger(), eyes_sha256=sha256) as memory:
            hits["visual_map"], keep_ms, find_ms = _memory_hits(memory, name, kept, asked)
        for way, table in hits.items():
            for k, column in zip(KS, table.T, strict=True):
                metrics[f"recall_{name}_{way}_at_{k}"] = Metric.of([float(column.mean())], "1")
        for level in ("class", "colour", "place"):
            for at, k in enumerate(KS):
                text = hits[f"text_{level}"][:, at]
                ratios[f"recall_{name}_at_{k}_{level}"] = _ratio(hits["visual_map"][:, at], text, level)
        metrics[f"keep_a_sight_{name}"] = Metric.of(keep_ms, "ms")
        metrics[f"find_alike_{name}"] = Metric.of(find_ms, "ms")
    return metrics, ratios


def looks(eyes: LearnedEyes, alike: bool, scenes: int, seed: int) -> tuple[list[Look], list[Look]]:
    """Scenes as they are remembered, and as they are asked for."""
    from tether.world.scenes import SceneCamera, VisitConfig, draw_scene  # needs GL

    rng = np.random.default_rng([seed, int(alike)])
    kept: list[Look] = []
    asked: list[Look] = []
    urdf = expand(resource_path("urdf", ROBOT_FILE))
    with SceneCamera(urdf, task("fetch"), profile("real").camera, _MORE_MAX, VisitConfig()) as camera:
        for _ in range(scenes):
            colours = _COLOURS if alike else ("red", *rng.choice(_COLOURS, int(rng.integers(1, _MORE_MAX + 1))))
            scene = draw_scene(tuple(map(str, colours)), rng)
            for looked in (kept, asked):
                visit = camera.visit(scene, rng)
                tokens = eyes.look(visit.rgb, None).tokens
                if tokens is None:
                    raise ValueError("eyes without tokens")
                looked.append(Look(tokens, _labels([cube.colour for cube in scene], visit.places)))
    return kept, asked


def _labels(colours: Sequence[str], places: F64) -> dict[str, Counter[str]]:
    where = [f"{_third(x, _NEAR_M, _FAR_M)}{_third(y, -_SIDE_M, _SIDE_M)}" for x, y in places.tolist()]
    return {
        "class": Counter("cube" for _ in colours),
        "colour": Counter(f"{colour} cube" for colour in colours),
        "place": Counter(f"{colour} cube at {at}" for colour, at in zip(colours, where, strict=True)),
    }


def _third(value: float, low: float, high: float) -> int:
    return int(value > low) + int(value > high)


def text_hits(kept: Sequence[Look], asked: Sequence[Look], level: str) -> F64:
    """(questions, k) chance that the right one is among the first k, by labels of this level."""
    rows = []
    for right, look in enumerate(asked):
        scores = np.array([_jaccard(look.labels[level], other.labels[level]) for other in kept])
        better = int((scores > scores[right] + 1e-9).sum())
        equal = int((np.abs(scores - scores[right]) <= 1e-9).sum())
        rows.append([min(max((k - better) / equal, 0.0), 1.0) for k in KS])
    return np.array(rows)


def _jaccard(one: Counter[str], other: Counter[str]) -> float:
    return sum((one & other).values()) / max(sum((one | other).values()), 1)


def _index_hits(domain: Domain, eyes: str, kept: Sequence[Look], asked: Sequence[Look]) -> F64:
    """By the mean over the map, which the memory does not keep."""
    index = VisualMemory(domain, eyes, Aggregation.MEAN)
    for number, look in enumerate(kept):
        body = sighting_body(look.tokens, Aggregation.MEAN, eyes, f"scene-{number}", number, {})
        index.add(Entry(number, "sight", body, {}, ""))
    return np.array([_hits([s.entry for s in index.alike(look.tokens, max(KS))], n) for n, look in enumerate(asked)])


def _memory_hits(
    memory: LongTermMemory, name: str, kept: Sequence[Look], asked: Sequence[Look]
) -> tuple[F64, list[float], list[float]]:
    before = len(memory.visual or ())
    if before:  # scenes of the set before would be wrong answers here
        raise ValueError("a memory with sightings; expected an empty one")
    keep_ms, find_ms, rows = [], [], []
    for number, look in enumerate(kept):
        begun_s = time.perf_counter()
        refused = memory.see(look.tokens, f"{name}-{number}", number, {})
        keep_ms.append((time.perf_counter() - begun_s) * 1e3)
        if refused:
            raise ValueError(f"a look was refused: {refused}")
    for number, look in enumerate(asked):
        begun_s = time.perf_counter()
        found = memory.alike(look.tokens, max(KS))
        find_ms.append((time.perf_counter() - begun_s) * 1e3)
        rows.append(_hits([sighting.stamp_ns for sighting in found], number))
    return np.array(rows), keep_ms, find_ms


def _hits(found: Sequence[int], right: int) -> list[float]:
    return [float(right in found[:k]) for k in KS]


def _ratio(ours: F64, text: F64, level: str) -> Ratio:
    """How many times the recall of text, with 95 % of bootstrap draws over questions."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(ours), size=(_DRAWS, len(ours)))
    drawn = ours[rows].mean(axis=1) / np.maximum(text[rows].mean(axis=1), 1e-9)
    low, high = (float(v) for v in np.percentile(drawn, (2.5, 97.5)))
    return Ratio(float(ours.mean() / max(float(text.mean()), 1e-9)), low, high, f"recall by text, {level}")
