"""What others vouch for at every tick: that models and skills are the signed ones, that critical state is intact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tether.contracts import Verdict
from tether.safety import checks
from tether.safety.settings import Check

Attestation = Callable[[], Verdict]
"""Answers at once with the newest verdict that is known; finding out is done elsewhere, not on the tick's thread.

The verdict's check is one of MODEL_SIGNATURE, SKILL_SIGNATURE, STATE_INTEGRITY.
"""


def attested(attestations: Sequence[Attestation]) -> list[Verdict]:
    """Verdicts below 1. An attestation that raises, or answers with anything else than a verdict, is a stop."""
    out = []
    for ask in attestations:
        try:
            verdict = ask()
            passes = isinstance(verdict, Verdict) and verdict.scale >= 1.0
        except Exception as error:  # noqa: BLE001 - what cannot vouch does not vouch
            verdict, passes = checks.refuse(Check.ATTESTATION, f"it raised {type(error).__name__}"), False
        if not isinstance(verdict, Verdict):
            verdict = checks.refuse(Check.ATTESTATION, f"it answered {type(verdict).__name__}, expected a verdict")
        if not passes:
            out.append(verdict)
    return out
