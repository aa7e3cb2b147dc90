"""What the linter says: one finding per fault, with where it stands, how bad it is and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Some common consumer (urdfdom, a simulator, a controller) refuses it, or it moves the wrong thing."""
    WARNING = "warning"
    """Read by everyone, but not the same way by everyone, or likely not what was meant."""


class Kind(str, Enum):
    """What sort of thing a finding is about."""

    FILE = "file"
    ROBOT = "robot"
    LINK = "link"
    JOINT = "joint"


@dataclass(frozen=True)
class Finding:
    """One fault of a robot description.

    rule: stable identifier, e.g. `inertia-triangle`. subject: name of the link or joint (or file). line: line
    in the file that was given, None where the text came out of xacro and has no line there.
    """

    rule: str
    severity: Severity
    kind: Kind
    subject: str
    message: str
    fix: str
    line: int | None = None


def error(rule: str, kind: Kind, subject: str, message: str, fix: str, line: int | None = None) -> Finding:
    """Return an ERROR finding."""
    return Finding(rule, Severity.ERROR, kind, subject, message, fix, line)


def warning(rule: str, kind: Kind, subject: str, message: str, fix: str, line: int | None = None) -> Finding:
    """Return a WARNING finding."""
    return Finding(rule, Severity.WARNING, kind, subject, message, fix, line)
