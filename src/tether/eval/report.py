"""The report page: figures, plots and films of the best and the worst episode in one self-contained HTML file."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.bench.way import read_way
from tether.contracts import EpisodeResult
from tether.eval.figures import figure_html, pyplot
from tether.eval.film import film
from tether.eval.result import Setting, as_rows
from tether.eval.statistics import summarise
from tether.eval.waterfall import section
from tether.results import header

_STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1c2430; --note: #5a6675 }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --text: #e3e7ed; --note: #9aa6b5 } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--page); color: var(--text) }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
th { font-weight: 600; white-space: nowrap } figure { margin: 1rem 0 } img, svg { max-width: 100%; height: auto }
.films { display: flex; flex-wrap: wrap; gap: 1.5rem } .films figure { flex: 1 1 20rem }
.note { color: var(--note); font-size: .9rem } details { margin-top: 1rem }
"""
_GOOD, _BAD = "#2a7f62", "#b5482f"


@dataclass(frozen=True)
class Pick:
    """An episode that is worth a film."""

    title: str
    result: EpisodeResult


def write_report(folder: Path, setting: Setting, results: Sequence[EpisodeResult], bag: Path | None = None) -> Path:
    """Write report.html into `folder`; returns its path. bag: the run's recording, for its latencies."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    latency = "" if bag is None else section(read_way(bag))
    path.write_text(_page(setting, results, latency), encoding="utf-8")
    return path


def best_and_worst(results: Sequence[EpisodeResult]) -> list[Pick]:
    """The quickest success, and a failure, or the slowest success where there is none; one film if they are one."""
    successes = sorted((r for r in results if r.success), key=lambda r: (r.attempts, r.duration_s))
    failures = [r for r in results if not r.success]
    picks = []
    if successes:
        picks.append(Pick("best: quickest success", successes[0]))
    if failures:
        picks.append(Pick(f"worst: {failures[0].failure}", failures[0]))
    elif len(successes) > 1:
        picks.append(Pick("worst: slowest success", successes[-1]))
    return picks


def _page(setting: Setting, results: Sequence[EpisodeResult], latency: str) -> str:
    title = f"{setting.policy} on {setting.task}, profile {setting.profile}"
    rows = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in as_rows(setting, results))
    made = header("eval", setting.seed)
    films = "".join(_film_figure(setting, pick) for pick in best_and_worst(results))
    simulated = (
        "<p class='note'>Profile <b>real</b> is a simulated Pi 5 profile: latencies, noise and lag are modelled, "
        "no physical robot was involved.</p>"
        if setting.profile == "real"
        else ""
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><h1>{html.escape(title)}</h1>{simulated}"
        f"<table>{rows}</table><h2>Episodes</h2>{_plots(results)}{latency}"
        f"<h2>Films</h2><p class='note'>The same seeds again through the core loop.</p><div class='films'>{films}</div>"
        f"<details><summary>Every episode</summary>{_episode_table(results)}</details>"
        f"<p class='note'>Tether {made['version']}, commit {made['commit']}, {html.escape(made['machine']['cpu'])}, "
        f"<code>{html.escape(made['command'])}</code></p></html>\n"
    )


def _film_figure(setting: Setting, pick: Pick) -> str:
    data = base64.b64encode(film(setting, pick.result.spec.seed)).decode()
    r = pick.result
    attempts = "1 attempt" if r.attempts == 1 else f"{r.attempts} attempts"
    caption = f"{pick.title} (seed {r.spec.seed}, {attempts}, {r.duration_s:.2f} s)"
    return (
        f"<figure><img alt='{html.escape(caption)}' src='data:image/webp;base64,{data}'>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _episode_table(results: Sequence[EpisodeResult]) -> str:
    rows = "".join(
        f"<tr><td>{r.spec.seed}</td><td>{'picked' if r.success else html.escape(r.failure or '')}</td>"
        f"<td>{r.attempts}</td><td>{r.duration_s:.2f}</td></tr>"
        for r in results
    )
    return f"<table><tr><th>seed</th><th>outcome</th><th>attempts</th><th>time, s</th></tr>{rows}</table>"


def _plots(results: Sequence[EpisodeResult]) -> str:
    figure, (times, attempts, failures) = pyplot().subplots(1, 3, figsize=(11, 3.2), constrained_layout=True)
    _plot_times(times, results)
    _plot_attempts(attempts, results)
    _plot_failures(failures, results)
    for axes in (times, attempts, failures):
        axes.spines[["top", "right"]].set_visible(False)
    return figure_html(figure)


def _plot_times(axes: Any, results: Sequence[EpisodeResult]) -> None:
    for success, colour, label in ((True, _GOOD, "picked"), (False, _BAD, "failed")):
        chosen = [r for r in results if r.success is success]
        if chosen:
            axes.scatter([r.spec.seed for r in chosen], [r.duration_s for r in chosen], s=14, color=colour, label=label)
    longest_s = max((r.duration_s for r in results), default=1.0)
    axes.set(title="time of each episode", xlabel="seed", ylabel="s", ylim=(0, 1.25 * longest_s))
    axes.xaxis.get_major_locator().set_params(integer=True)
    if results:
        axes.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)


def _plot_attempts(axes: Any, results: Sequence[EpisodeResult]) -> None:
    top = max((r.attempts for r in results), default=1)
    counts = range(top + 1)
    good = [sum(r.success and r.attempts == n for r in results) for n in counts]
    bad = [sum(not r.success and r.attempts == n for r in results) for n in counts]
    axes.bar(counts, good, color=_GOOD)
    axes.bar(counts, bad, bottom=good, color=_BAD)
    axes.set(title="closings of the gripper", xlabel="attempts", ylabel="episodes", xticks=list(counts))
    axes.yaxis.get_major_locator().set_params(integer=True)


def _plot_failures(axes: Any, results: Sequence[EpisodeResult]) -> None:
    summary = summarise(results)
    axes.set_title("outcomes")
    names = ["picked", *summary.failures]
    values = [summary.successes, *summary.failures.values()]
    axes.barh(names[::-1], values[::-1], height=0.5, color=[_BAD] * len(summary.failures) + [_GOOD])
    axes.set(xlabel="episodes", ylim=(-1, len(names)))
    axes.xaxis.get_major_locator().set_params(integer=True)
