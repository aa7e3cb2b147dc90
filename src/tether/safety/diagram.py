"""The state machine drawn from the table that runs: `python -m tether.safety.diagram docs/safety.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tether.contracts import Mode
from tether.errors import Fault, InvalidInputError
from tether.safety.machine import TRANSITIONS

BEGIN = "<!-- begin: made by python -m tether.safety.diagram -->"
END = "<!-- end -->"


def dot() -> str:
    """Graphviz text of the machine; transitions between the same two modes share an arrow."""
    edges: dict[tuple[Mode, Mode], list[str]] = {}
    for row in TRANSITIONS:
        edges.setdefault((row.source, row.target), []).append(row.event.value)
    lines = [
        "digraph supervisor {",
        "  rankdir=LR;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    lines += [f"  {mode.name}{' [peripheries=2]' if mode is Mode.STOP else ''};" for mode in Mode]
    lines += [f'  {a.name} -> {b.name} [label="{", ".join(events)}"];' for (a, b), events in edges.items()]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid() -> str:
    """The same for readers of Markdown."""
    lines = ["stateDiagram-v2", f"    [*] --> {Mode.INIT.name}"]
    lines += [f"    {row.source.name} --> {row.target.name}: {row.event.value}" for row in TRANSITIONS]
    return "\n".join(lines) + "\n"


def table() -> str:
    """Every transition with its condition, as a Markdown table."""
    lines = ["| in | event | leads to | when |", "| --- | --- | --- | --- |"]
    lines += [f"| {r.source.name} | {r.event.value} | {r.target.name} | {r.note} |" for r in TRANSITIONS]
    return "\n".join(lines) + "\n"


def section() -> str:
    """What stands between the markers in docs/safety.md."""
    return f"{BEGIN}\n```mermaid\n{mermaid()}```\n\n{table()}{END}"


def updated(text: str) -> str:
    """`text` with the section between the markers made anew; raises InvalidInputError without markers."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        fault = Fault("markers", "none", f"{BEGIN} … {END}")
        raise InvalidInputError("documentation of the state machine", [fault])
    return text[:begin] + section() + text[end + len(END) :]


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the section in the given files, or write Graphviz text to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files to update in place")
    parser.add_argument("--dot", action="store_true", help="write Graphviz text to standard output")
    options = parser.parse_args(arguments)
    if options.dot:
        sys.stdout.write(dot())
    for path in options.files:
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
