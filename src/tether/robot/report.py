"""A check's report, for people (a table) and for machines (JSON)."""

from __future__ import annotations

import textwrap
from typing import Any

from tether.robot.check import Report, Status
from tether.robot.findings import Finding, Rule, Severity

_WIDTH = 118
_SUBJECT_MAX = 44


def as_table(report: Report) -> str:
    """Return the report as text: findings by rule, errors first, each with link or joint and line."""
    lines = [f"{report.path}: {_headline(report)}"]
    groups: dict[tuple[Severity, Rule], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.severity, finding.rule), []).append(finding)
    width = min(max((len(_visible(finding.subject)) for finding in report.findings), default=0), _SUBJECT_MAX)
    for (severity, rule), findings in groups.items():
        fixes = {finding.fix for finding in findings}
        lines += ["", f"{severity.value} {rule.value} ({len(findings)})"]
        for finding in findings:
            lines += _rows(finding, width)
            if len(fixes) > 1:
                lines += _wrap(f"fix: {finding.fix}", 6)
        if len(fixes) == 1:
            lines += _wrap(f"fix: {findings[0].fix}", 2)
    return "\n".join([*lines, "", _verdict(report)]) + "\n"


def _headline(report: Report) -> str:
    if report.status is Status.NOT_CHECKABLE:
        return "cannot be checked"
    kind = " (expanded by xacro)" if report.expanded else ""
    return (
        f"robot {report.robot!r}{kind}, {_count(report.links, 'link')}, {_count(report.joints, 'joint')} "
        f"({report.moving} that move)"
    )


def _rows(finding: Finding, width: int) -> list[str]:
    line = f"line {finding.line}" if finding.line is not None else ""
    head = f"  {finding.kind.value:<5}  {_visible(finding.subject):<{width}}  {line:<9}  "
    return textwrap.wrap(
        _visible(finding.message), _WIDTH, initial_indent=head, subsequent_indent=" " * 6, break_long_words=False
    )


def _visible(text: str) -> str:
    """Text with its control characters (new lines, changes of direction) written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _wrap(text: str, indent: int) -> list[str]:
    return textwrap.wrap(_visible(text), _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 5))


def _verdict(report: Report) -> str:
    counts = f"{_count(report.errors, 'error')}, {_count(report.warnings, 'warning')}"
    word = {Status.CLEAN: "clean", Status.FAULTS: "faults found", Status.NOT_CHECKABLE: "not checkable"}
    return f"{word[report.status]}: {counts}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain data for JSON; the fields of a finding are those of `Finding`."""
    return {
        "file": str(report.path),
        "status": report.status.name.lower(),
        "robot": report.robot,
        "expanded_by_xacro": report.expanded,
        "links": report.links,
        "joints": report.joints,
        "moving_joints": report.moving,
        "errors": report.errors,
        "warnings": report.warnings,
        "findings": [
            {
                "rule": finding.rule.value,
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "line": finding.line,
                "message": finding.message,
                "fix": finding.fix,
            }
            for finding in report.findings
        ],
    }
