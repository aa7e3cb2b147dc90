"""Injections that were made, a line of JSON each: what an interrupted campaign goes on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.faults.table import End
from tether.journal import RecordJournal


@dataclass(frozen=True)
class Injection:
    """One fault that was put in, and what came of it.

    stop_ms: to the first safe set-point at the actuators' input; standstill_ms: until the robot stood; still_ms: the
    one less the other; None where it did not come, or cannot. recovery_s: from the end of the fault until the gate let
    the robot move. said: the event that the table asks for was published. blind: the observer itself was late between
    fault and stop, so stop_ms may be too long. gate_ms, gap_ms, why: see `tether.faults.measure.Stop`. unsafe: commands
    that should not have been, in words. lost: records missing.
    """

    fault: str
    end: End
    stop_ms: float | None
    standstill_ms: float | None
    still_ms: float | None
    gate_ms: float | None
    gap_ms: float | None
    why: str
    recovery_s: float | None
    said: bool
    blind: bool
    safe: bool
    unsafe: tuple[str, ...]
    lost: int


@dataclass
class GraphLife:
    """What else came of one graph.

    commands: gated ones that were judged. unsafe, lost: outside every injection that counts. discarded: injections in
    which an episode ended. made_anew: those in which the observer was late.
    """

    commands: int = 0
    unsafe: int = 0
    lost: int = 0
    discarded: int = 0
    made_anew: int = 0


class FaultJournal:
    """Injections and graphs of one campaign, under its key."""

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        self._records = RecordJournal(path, key)

    def read(self) -> tuple[list[Injection], list[GraphLife]]:
        """What was kept under this very key."""
        records = self._records.read()
        injections = [_injection(record) for record in records if "fault" in record]
        return injections, [GraphLife(**record) for record in records if "fault" not in record]

    def append(self, one: Injection | GraphLife) -> None:
        """Keep one more."""
        self._records.append(dataclasses.asdict(one))

    def remove(self) -> None:
        """The campaign is complete and its result written."""
        self._records.remove()


def _injection(record: Mapping[str, Any]) -> Injection:
    return Injection(**{**record, "end": End(record["end"]), "unsafe": tuple(record["unsafe"])})
