"""`tether fuzz gate`: how many damaged messages and files the gate takes, refuses, and, if ever, stumbles over."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tether.arguments import not_negative, positive
from tether.journal import RecordJournal
from tether.progress import Progress
from tether.quiet import at_least
from tether.results import header, require_writable, write_json

_TALKATIVE = ("tether.safety", "tether.integrity")
"""They say much of what is done to them."""
_CHUNK = 5000
_FILES = 25
"""Of a chunk: files are slow. What is damaged in a chunk, and how, follows from (seed, number) alone; keys, signatures
and times in files are new each time."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "fuzz",
        help="damaged messages and files into everything that the gate reads",
        description="A stretch of an honest episode is played to the gate with its messages damaged, and files that "
        "the gate reads are damaged before it reads them. An exception that escapes, a fault that the gate catches in "
        "itself and a command past a limit are findings. Interrupted, it goes on where it was.",
    )
    parser.add_argument("what", choices=["gate"], help="gate: the safety gate")
    parser.add_argument("--cases", type=positive, default=100_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file of the result")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0: every case was made and nothing was found; 1: something was found, and stands in the result."""
    out: Path = arguments.json
    require_writable(out)
    journal = RecordJournal(out.with_name(out.name + ".journal"), {"fuzz": "gate", "seed": arguments.seed})
    chunks = journal.read()
    wanted = -(-arguments.cases // _CHUNK)
    progress = Progress(max(wanted - len(chunks), 0), f"times {_CHUNK} cases")
    with tempfile.TemporaryDirectory(prefix="tether-fuzz-") as folder, at_least(logging.CRITICAL + 1, *_TALKATIVE):
        for number in range(len(chunks), wanted):
            chunks.append(_chunk(arguments.seed, number, Path(folder)))
            journal.append(chunks[-1])
            progress.step(f"{sum(len(chunk['findings']) for chunk in chunks)} findings")
    result = _summed(arguments.seed, chunks)
    write_json(out, result)
    journal.remove()
    sys.stdout.write(_table(result))
    return 1 if result["findings"] else 0


def _chunk(seed: int, number: int, folder: Path) -> dict[str, Any]:
    from tether.fuzz.files import GateFiles
    from tether.fuzz.messages import play

    rng = random.Random(f"{seed} {number}")
    played = play(rng, _CHUNK - _FILES)
    place = folder / str(number)
    place.mkdir(mode=0o700)
    counts, refused, findings = GateFiles(place).damage(rng, _FILES)
    return {
        "chunk": number,
        "cases": dict(played.cases + counts),
        "refused": dict(played.refused + refused),
        "ticks": played.ticks,
        "moving": played.moving,
        "findings": played.findings + findings,
    }


def _summed(seed: int, chunks: list[dict[str, Any]]) -> dict[str, Any]:
    cases: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for chunk in chunks:
        cases.update(chunk["cases"])
        refused.update(chunk["refused"])
    return {
        **header("fuzz", seed),
        "cases": sum(cases.values()),
        "ticks": sum(chunk["ticks"] for chunk in chunks),
        "ticks_in_motion": sum(chunk["moving"] for chunk in chunks),
        "per_input": {name: {"cases": cases[name], "refused": refused[name]} for name in sorted(cases)},
        "findings": [f"chunk {chunk['chunk']}: {text}" for chunk in chunks for text in chunk["findings"]],
    }


def _table(result: dict[str, Any]) -> str:
    lines = [f"{'input':<22} {'cases':>9} {'refused':>9}"]
    lines += [f"{name:<22} {row['cases']:>9} {row['refused']:>9}" for name, row in result["per_input"].items()]
    lines.append(f"{result['cases']} cases, {result['ticks']} ticks, {len(result['findings'])} findings")
    return "\n".join([*lines, *result["findings"][:20]]) + "\n"
