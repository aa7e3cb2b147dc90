"""Success against the age of the truth an oracle is given: the same seeds at each age."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tether.contracts import EpisodeResult
from tether.eval.result import Setting
from tether.eval.statistics import summarise
from tether.results import header

Sweep = Mapping[float, Sequence[EpisodeResult]]
"""Age of the truth in ms → results, in order of age."""


def sweep_json(setting: Setting, sweep: Sweep) -> dict[str, Any]:
    """`points`: for each age what `tether eval` says of it, without the single episodes."""
    key = setting.key()
    del key["truth_age_ms"]
    points = [{"truth_age_ms": age, **dataclasses.asdict(summarise(results))} for age, results in sweep.items()]
    return {**header("eval sweep", setting.seed), **key, "points": points}


def sweep_table(setting: Setting, sweep: Sweep) -> str:
    """A line for each age."""
    lines = [f"  {setting.policy} on {setting.task}, profile {setting.profile}", "  truth age  success   95 % interval"]
    for age, results in sweep.items():
        s = summarise(results)
        lines.append(
            f"  {age:6.0f} ms  {s.success_rate:7.1%}   {s.wilson_low:.1%} to {s.wilson_high:.1%} of {s.episodes}"
        )
    return "\n".join(lines) + "\n"


def draw_sweep(path: Path, setting: Setting, sweep: Sweep) -> None:
    """The curve with its intervals as an SVG or PNG, by the file's name."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "tether"  # the same curve gives the same file
    summaries = {age: summarise(results) for age, results in sweep.items()}
    ages = list(summaries)
    rates = [s.success_rate for s in summaries.values()]
    below = [s.success_rate - s.wilson_low for s in summaries.values()]
    above = [s.wilson_high - s.success_rate for s in summaries.values()]
    figure, axes = pyplot.subplots(figsize=(6, 3.4), constrained_layout=True)
    axes.errorbar(ages, rates, yerr=[below, above], marker="o", color="#2a7f62", capsize=3)
    axes.set(
        title=f"{setting.policy} on {setting.task}, profile {setting.profile}",
        xlabel="age of the truth it acts on, ms",
        ylabel="success",
        ylim=(0, 1.03),
        xticks=ages,
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
