"""Errors of the core library. Each says what was wrong, what was found, what was expected and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class TetherError(Exception):
    """Base of every error that Tether raises on purpose."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an input: where it stands, what was found there, what was expected."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


class InvalidInputError(TetherError):
    """An input (file, message, argument) that was refused; carries every fault found in it, not just the first."""

    def __init__(self, what: str, faults: Sequence[Fault], fix: str = "") -> None:
        self.what = what
        self.faults = tuple(faults)
        self.fix = fix
        lines = [f"{what}: {len(self.faults)} fault{'s' if len(self.faults) != 1 else ''}"]
        lines += [f"  - {fault}" for fault in self.faults]
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, x being the known name that is most like `name`; empty where none is like it."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def raise_together(what: str, errors: Sequence[InvalidInputError]) -> None:
    """Raise one error with the faults of all; a single one as it is; none of none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        fixes = "; ".join(dict.fromkeys(error.fix for error in errors if error.fix))
        raise InvalidInputError(what, [fault for error in errors for fault in error.faults], fixes)


class DeadlineError(TetherError):
    """A wait ran out; names what did not come."""

    def __init__(self, waited_for: str, deadline_s: float, missing: Sequence[str] = ()) -> None:
        self.waited_for = waited_for
        self.deadline_s = deadline_s
        self.missing = tuple(missing)
        tail = f"; did not come: {', '.join(self.missing)}" if self.missing else ""
        super().__init__(f"{waited_for}: nothing within {deadline_s:g} s{tail}")
