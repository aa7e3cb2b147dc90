"""`tether doctor`: what is wrong with this machine, and the fix. Needs no ROS to run."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tether.doctor import devices, graphics, hardware, raspberry, raspberry_camera, ros, security, software
from tether.doctor.finding import Finding, Machine, Status
from tether.results import header, require_writable, write_json

Probe = Callable[[Machine], list[Finding]]
GROUPS: dict[str, tuple[Probe, ...]] = {
    "hardware": hardware.PROBES,
    "devices": devices.PROBES,
    "raspberry": (*raspberry.PROBES, *raspberry_camera.PROBES),
    "gl": graphics.PROBES,
    "ros": ros.PROBES,
    "security": security.PROBES,
    "software": software.PROBES,
}
_DESCRIPTION = """\
Looks at the physical machine first (memory, disk, heat, power, clocks, cameras, I2C, serial), then at GL, the
ROS 2 environment, package versions, messages and models, and says what to do about each thing that is wrong.
"""
_EPILOG = "exit status: 0 nothing failed (warnings allowed), 1 something failed"


def add_parser(subparsers: Any) -> None:
    """Add `doctor` to the subparsers of an argparse parser; the handler `run` returns the exit status."""
    doctor = subparsers.add_parser(
        "doctor",
        help="what is wrong with this machine, and the fix",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument(
        "--only", metavar="GROUP", action="append", choices=sorted(GROUPS), help=f"one of {', '.join(GROUPS)}"
    )
    doctor.add_argument("--quiet", action="store_true", help="show only what is wrong")
    doctor.add_argument("--json", metavar="OUT", type=Path, help="write the findings as JSON as well")
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Examine, show, write; exit status 1 when something failed."""
    if args.json is not None:
        require_writable(args.json)
    groups = args.only or list(GROUPS)
    findings = {group: examine(GROUPS[group], Machine()) for group in GROUPS if group in groups}
    sys.stdout.write(as_table(findings, shutil.get_terminal_size((110, 40)).columns, quiet=args.quiet))
    if args.json is not None:
        write_json(args.json, {**header("doctor", 0), **as_json(findings)})
    return int(any(f.status is Status.FAIL for group in findings.values() for f in group))


def examine(probes: Sequence[Probe], machine: Machine) -> list[Finding]:
    """Findings of some probes, in their order."""
    return [finding for probe in probes for finding in probe(machine)]


def as_table(findings: dict[str, list[Finding]], width: int, *, quiet: bool = False) -> str:
    """Findings by group for people, each that is wrong with what was expected and the fix below it."""
    lines = []
    for group, members in findings.items():
        shown = [f for f in members if not (quiet and f.status is Status.OK)]
        if shown:
            lines += [group, *(line for f in shown for line in rows(f, width)), ""]
    counts = {s: sum(f.status is s for m in findings.values() for f in m) for s in Status}
    lines.append(", ".join(f"{n} {status.value}" for status, n in counts.items()))
    return "\n".join(lines) + "\n"


def rows(finding: Finding, width: int) -> list[str]:
    """Lines of one finding. The fix stays on one line however long it is: a command is copied from there as it is."""
    head = f"  {finding.status.value:<5} {finding.name:<19} "
    lines = wrapped(finding.found, head, width)
    if finding.status is not Status.OK:
        lines += wrapped(f"expected: {finding.expected}", " " * len(head), width)
        lines.append(f"{' ' * len(head)}fix: {finding.fix}")
    return lines


def wrapped(text: str, head: str, width: int) -> list[str]:
    """A text after a head, its further lines indented as far; names are not broken inside words."""
    return textwrap.wrap(
        text,
        max(width, len(head) + 30),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_json(findings: dict[str, list[Finding]]) -> dict[str, Any]:
    """Findings for machines: counts by status, and a list."""
    flat = [(group, f) for group, members in findings.items() for f in members]
    return {
        "counts": {s.value: sum(f.status is s for _, f in flat) for s in Status},
        "findings": [
            {
                "group": group,
                "name": f.name,
                "status": f.status.value,
                "found": f.found,
                "expected": f.expected,
                "fix": f.fix,
            }
            for group, f in flat
        ],
    }
