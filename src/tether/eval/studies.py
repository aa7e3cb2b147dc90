"""The studies there are: success against the camera's delay, without each modality, and under profiles never seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.assembly import profile
from tether.eval.study import Cell
from tether.student.observation import MODALITIES
from tether.student.profiles import Spread, draw
from tether.world.profile import Profile, write_profile

_BEYOND = 0.25
"""Share of a range's width by which it is widened at either end."""


def curve_cells(policies: Mapping[str, str], base: str, delays_ms: Sequence[float], folder: Path) -> tuple[Cell, ...]:
    """Row → policy, each under the profile `base` with another delay of the camera; its jitter stays where it can."""
    files = {delay: write_profile(folder / f"camera_{delay:g}ms.yaml", delayed(base, delay)) for delay in delays_ms}
    return tuple(
        Cell(row, f"{delay:g} ms", policy, (files[delay],)) for delay in delays_ms for row, policy in policies.items()
    )


def delayed(base: str, camera_ms: float) -> Profile:
    """The profile with another delay of the camera."""
    made = profile(base)
    delay = made.camera.delay
    latency_s = camera_ms * 1e-3
    delay = replace(delay, latency_s=latency_s, jitter_s=min(delay.jitter_s, latency_s))
    return replace(made, name=f"{made.name}_camera_{camera_ms:g}ms", camera=replace(made.camera, delay=delay))


def ablation_cells(student: str, base: str, modalities: Sequence[str] = MODALITIES) -> tuple[Cell, ...]:
    """The student as it is, and without each modality."""
    names = {"all modalities": student, **{f"without {m}": f"{student}-{m}" for m in modalities}}
    return tuple(Cell(row, base, policy, (base,)) for row, policy in names.items())


def unseen_cells(
    policies: Mapping[str, str], base: str, profiles: int, per_profile: int, seed: int, folder: Path
) -> tuple[Cell, ...]:
    """Each policy under `base`, under profiles drawn from the ranges of training, and from ranges a quarter wider."""
    spread = replace(Spread(), exact=0.0)
    columns: dict[str, tuple[str, ...]] = {base: (base,)}
    for column, ranges in (("drawn", spread), ("25 % beyond", widened(spread))):
        rng = np.random.default_rng((seed, len(columns)))
        drawn = [draw(profile(base), ranges, rng) for _ in range(profiles)]
        stem = "drawn" if column == "drawn" else "beyond"
        columns[column] = tuple(write_profile(folder / f"{stem}_{i:03d}.yaml", p) for i, p in enumerate(drawn))
    return tuple(
        Cell(row, column, policy, files, per_profile)
        for column, files in columns.items()
        for row, policy in policies.items()
    )


def widened(spread: Spread, share: float = _BEYOND) -> Spread:
    """Ranges that reach beyond those of `spread` by `share` of their width at either end, as far as that exists."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(spread):
        value = getattr(spread, field.name)
        if isinstance(value, tuple):
            low, high = value
            reach = share * (high - low)
            lowest, highest = field.metadata["low"], field.metadata["high"]
            changes[field.name] = (max(low - reach, lowest), min(high + reach, highest))
    return replace(spread, **changes)


def draw_curve(path: Path, title: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """A line a row over columns that are delays in ms, with 95 % intervals; SVG or PNG by the file's name.

    cells: as `study_json` has them; those without an episode yet are left out.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "tether"  # the same curve gives the same file
    figure, axes = pyplot.subplots(figsize=(7, 4), constrained_layout=True)
    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    ticks = sorted({_delay_of(cell) for cell in cells})
    for k, row in enumerate(rows):
        line = sorted((cell for cell in cells if cell["row"] == row and cell["episodes"]), key=_delay_of)
        shift = (k - (len(rows) - 1) / 2.0) * 2.5  # intervals beside each other, not on top
        axes.errorbar(
            [_delay_of(cell) + shift for cell in line],
            [cell["success_rate"] for cell in line],
            yerr=[
                [cell["success_rate"] - cell["wilson_low"] for cell in line],
                [cell["wilson_high"] - cell["success_rate"] for cell in line],
            ],
            marker="o", capsize=3, label=row,
        )  # fmt: skip
    counts = [cell["episodes"] for cell in cells if cell["episodes"]] or [0]
    axes.set(
        title=f"{title}; {min(counts)} to {max(counts)} episodes a point",
        xlabel="delay of the camera, ms",
        ylabel="success",
        ylim=(-0.02, 1.03),
        xticks=ticks,
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _delay_of(cell: Mapping[str, Any]) -> float:
    return float(cell["column"].removesuffix(" ms"))
