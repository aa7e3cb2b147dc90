"""The way to a trip as a Graphviz graph: one box for each stretch of ticks, the judgement that went wrong in red."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import textwrap
from itertools import pairwise
from pathlib import Path

from tether.blackbox.incident import Incident, Judgement, Stretch

SHOWN_MAX = 24
"""Stretches in the picture; the summary has all."""
_TEXT_MAX, _LINE_MAX = 240, 60
_RENDER_S = 20.0


def dot(incident: Incident) -> str:
    """Graphviz text. The newest SHOWN_MAX stretches, with the one that went wrong always among them."""
    stretches = list(enumerate(incident.stretches))
    shown = stretches[-SHOWN_MAX:]
    wrong_in = incident.wrong_in
    if wrong_in is not None and shown and wrong_in < shown[0][0]:
        shown = [stretches[wrong_in], *shown[1:]]
    end_ns = incident.trip.stamp_ns
    lines = [
        "digraph incident {",
        f"  label={_quoted(_title(incident))};",
        '  labelloc=t; rankdir=TB; fontname="sans-serif";',
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    for i, stretch in shown:
        colour = ', color=red, penwidth=2, fillcolor="#ffe5e5"' if i == wrong_in else ""
        lines.append(f"  s{i} [label={_quoted(_box(stretch, end_ns))}{colour}];")
    for (i, before), (k, after) in pairwise(shown):
        gap = "" if k == i + 1 else f"{k - i - 1} more"
        lines.append(f"  s{i} -> s{k} [label={_quoted(gap or _edge(before, after))}];")
    if shown:
        lines.append(f"  s{shown[-1][0]} -> trip [color=red];")
    lines.append(f"  trip [shape=box, peripheries=2, style=solid, color=red, label={_quoted(_trip(incident))}];")
    if incident.wrong is not None:
        lines.append(f"  wrong [shape=note, color=red, label={_quoted(_judgement(incident.wrong, end_ns))}];")
        if wrong_in is not None:
            lines.append(f"  wrong -> s{wrong_in} [style=dashed, color=red, arrowhead=none];")
    return "\n".join([*lines, "}"]) + "\n"


def render(source: Path) -> Path | None:
    """An SVG beside a DOT file; None where Graphviz is not installed or does not manage it in time."""
    program = shutil.which("dot")
    if program is None or not source.exists():
        return None
    target = source.with_suffix(".svg")
    partial = target.with_name(target.name + ".part")
    try:
        subprocess.run(
            [program, "-Tsvg", "-o", str(partial), str(source)], check=True, timeout=_RENDER_S, capture_output=True
        )
        partial.replace(target)
    except (OSError, subprocess.SubprocessError):
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        return None
    return target


def _title(incident: Incident) -> str:
    wrong = incident.wrong
    what = "no judgement in the window" if wrong is None else f"{wrong.check} at tick {wrong.tick}"
    return f"{incident.trip.kind.value}: {what}"


def _box(stretch: Stretch, end_ns: int) -> str:
    lines = [stretch.mode]
    if stretch.skill:
        lines.append(f"{stretch.skill}, step {stretch.step_k} of {stretch.step_n}")
    if stretch.primitive:
        lines.append(f"{stretch.primitive}, decisions {stretch.first_decision} to {stretch.last_decision}")
    lines.append(f"ticks {stretch.first_tick} to {stretch.last_tick}, from {_before(stretch.first_ns, end_ns)}")
    if stretch.worst is not None:
        lines.append(f"{stretch.worst.check} let {stretch.worst.scale:.2f} pass")
    return "\n".join(lines)


def _edge(before: Stretch, after: Stretch) -> str:
    parts = []
    if before.mode != after.mode:
        parts.append(f"{before.mode} to {after.mode}")
        if after.worst is not None:
            parts.append(after.worst.check)
    if (before.skill, before.step_k) != (after.skill, after.step_k):
        parts.append("next step")
    if before.primitive != after.primitive and after.primitive:
        parts.append(after.primitive)
    return ", ".join(parts)


def _judgement(judgement: Judgement, end_ns: int) -> str:
    where = f"tick {judgement.tick}, decision {judgement.decision_id}, {_before(judgement.stamp_ns, end_ns)}"
    return f"{judgement.check} let {judgement.scale:.2f} pass\n{_short(judgement.reason)}\n{where}"


def _trip(incident: Incident) -> str:
    return f"{incident.trip.kind.value}\n{_short(incident.trip.reason)}"


def _before(at_ns: int, end_ns: int) -> str:
    return f"{(at_ns - end_ns) * 1e-9:+.2f} s"


def _short(text: str) -> str:
    cut = text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
    return "\n".join(textwrap.wrap(cut, _LINE_MAX))


def _quoted(text: str) -> str:
    """A DOT string: quotes and backslashes escaped, lines kept, other control characters out."""
    clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
