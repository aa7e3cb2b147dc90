"""Faults of a launch file, gathered so that one run reports all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tether.errors import TetherError


@dataclass(frozen=True)
class Fault:
    """One fault: where it is and what is wrong; `line` is 1-based, 0 where a fault has no line."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`, the form editors jump to."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


class LaunchFileError(TetherError):
    """A launch file, or the arguments given to it, cannot be run; `faults` holds every fault found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        """Keep the faults in the order they were found."""
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class SubstitutionError(TetherError):
    """A `$(…)` cannot be parsed or resolved; the reader adds file and line."""


class FollowUpError(SubstitutionError):
    """It stands on something that is a fault already, and is none of its own."""


class PackageNotFoundError(TetherError):
    """A ROS package, its executable or its shared file is not where the ament index says it should be."""
