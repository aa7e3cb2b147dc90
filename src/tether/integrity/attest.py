"""What the critical state says to the gate."""

from __future__ import annotations

from collections.abc import Callable

from tether.contracts import Verdict
from tether.integrity.keeper import Keeper
from tether.safety.settings import Check

STATE_INTEGRITY = Check.STATE_INTEGRITY.value
"""Name of the check in verdicts, and the kind of the events that name findings."""


def state_attestation(keeper: Keeper) -> Callable[[], Verdict]:
    """An attestation for the gate (`tether.safety.attest`): stops while the state is not to be relied on.

    Each call hashes the leaves in memory, about 40 µs; it never waits for the disk.
    """

    def ask() -> Verdict:
        fault = keeper.fault
        if fault is None and not keeper.snapshot.intact():
            fault = "leaves in memory do not hash to their root"
        return Verdict(STATE_INTEGRITY, 1.0) if fault is None else Verdict(STATE_INTEGRITY, 0.0, fault[:500])

    return ask
