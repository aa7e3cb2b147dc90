"""Where a decision's time goes, from its newest sample's arrival to the gated command: the report's waterfall."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether.bench.way import Split, Way
from tether.eval.figures import INK, figure_html, pyplot

_COLOUR = "#3f6ea8"
_STEPS = {
    "wait": "wait for the next decision",
    "fusion": "fusion",
    "policy": "policy",
    "handover": "bridge, transport, executor's tick",
    "gate": "transport, gate's tick",
}
"""Field of `Split` → its words."""


@dataclass(frozen=True)
class Step:
    """One step over all decisions, ms. start, mean: where it begins in the mean, and how long it lasts."""

    words: str
    start: float
    mean: float
    p50: float
    p99: float


def steps_of(splits: Sequence[Split]) -> list[Step]:
    """The steps of one or more decisions in order, the whole as the last; means add up, percentiles do not."""
    times = np.asarray(splits, np.float64)
    starts = np.concatenate(([0.0], np.cumsum(times.mean(axis=0))))
    columns = [*times.T, times.sum(axis=1)]
    words = [*(_STEPS[name] for name in Split._fields), "sensor to gated command"]
    begins = [*starts[:-1], 0.0]
    made = []
    for name, begin, column in zip(words, begins, columns, strict=True):
        p50, p99 = (float(x) for x in np.percentile(column, (50, 99)))
        made.append(Step(name, float(begin), float(column.mean()), p50, p99))
    return made


def section(way: Way) -> str:
    """The report's section, HTML; empty where the recording has no times, as in lockstep."""
    if not way.splits:
        return ""
    steps = steps_of(way.splits)
    rows = "".join(
        f"<tr><td>{html.escape(step.words)}</td><td>{step.mean:.2f}</td><td>{step.p50:.2f}</td><td>{step.p99:.2f}</td></tr>"
        for step in steps
    )
    pictures = ""
    if way.camera_age_ms and way.decode_ms:
        age_ms, look_ms = float(np.median(way.camera_age_ms)), float(np.median(way.decode_ms))
        pictures = (
            f" The newest picture is {age_ms:.0f} ms old at a decision (median); to look at one takes {look_ms:.1f} ms."
        )
    note = (
        f"{len(way.splits)} decisions that came through to the gate; from the arrival at fusion of the newest sample "
        f"that was used.{pictures} {way.missed} decisions were missed."
    )
    return (
        f"<h2>Latency</h2>{_figure(steps)}<table><tr><th>step</th><th>mean, ms</th><th>p50</th><th>p99</th></tr>{rows}"
        f"</table><p class='note'>{note}</p>"
    )


def _figure(steps: Sequence[Step]) -> str:
    figure, axes = pyplot().subplots(figsize=(9, 0.45 * len(steps) + 0.9), constrained_layout=True)
    colours = [_COLOUR] * (len(steps) - 1) + [INK]
    axes.barh(range(len(steps)), [s.mean for s in steps], left=[s.start for s in steps], height=0.6, color=colours)
    for place, step in enumerate(steps):
        axes.annotate(f" {step.mean:.1f}", (step.start + step.mean, place), va="center", fontsize=8)
    axes.set(yticks=range(len(steps)), yticklabels=[s.words for s in steps], xlabel="ms, mean over decisions")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure_html(figure)
