"""What a probe finds, and the machine it looks at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Status(Enum):
    """How bad a finding is. Only FAIL keeps Tether from working here."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found, what was expected, and the fix (empty when status is OK)."""

    name: str
    status: Status
    found: str
    expected: str
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.status is Status.OK) == bool(self.fix):
            raise ValueError(f"finding {self.name}: status {self.status.value} with fix {self.fix!r}")


def ok(name: str, found: str, expected: str) -> Finding:
    """A finding that needs nothing done."""
    return Finding(name, Status.OK, found, expected)


@dataclass(frozen=True)
class Answer:
    """Output of a command that ran; `code` is its exit status."""

    code: int
    text: str


Runner = Callable[[Sequence[str]], "Answer | None"]


def run_command(command: Sequence[str]) -> Answer | None:
    """Run a short command; None where it does not exist or does not answer within 10 s."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Answer(done.returncode, done.stdout.strip() or done.stderr.strip())


@dataclass(frozen=True)
class Machine:
    """Everything a probe may look at, so that a test can hand it another machine.

    root: where /proc, /sys, /dev and /run are. here: whose disk will be written. prefix: of this Python.
    """

    root: Path = Path("/")
    here: Path = field(default_factory=Path.cwd)
    prefix: Path = field(default_factory=lambda: Path(sys.prefix))
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    run: Runner = run_command

    def read(self, path: str) -> str | None:
        """Text of a file below root without white space at its ends; None where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip().strip("\0")
        except OSError:
            return None

    def read_int(self, path: str) -> int | None:
        """A file that holds one whole number; None where it cannot be read or holds something else."""
        text = self.read(path)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def glob(self, pattern: str) -> list[Path]:
        """Paths below root, sorted."""
        return sorted(self.root.glob(pattern))

    @property
    def is_pi(self) -> bool:
        """Whether this is a Raspberry Pi."""
        return "Raspberry Pi" in (self.read("proc/device-tree/model") or "")
