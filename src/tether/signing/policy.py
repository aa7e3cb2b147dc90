"""How much a process asks of what it executes, set once for all of it by whoever starts it."""

from __future__ import annotations

import logging
import os
from enum import Enum
from functools import cache
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing.files import read_regular
from tether.signing.statement import Kind
from tether.signing.verify import SIZE_MAX, Verifier

_LOG = logging.getLogger(__name__)
TRUST_VARIABLE = "TETHER_TRUST"


class Trust(str, Enum):
    """What is executed."""

    ANY = "any"
    """Signed or not. For training and simulation, where models are made and tried by the minute."""
    SIGNED = "signed"
    """Signed by any key in this package, the machine's development key among them."""
    PHYSICAL = "physical"
    """Signed by a release key or the robot's own. robot.launch.xml sets this for every process."""


DEFAULT = Trust.ANY


def required_trust() -> Trust:
    """What $TETHER_TRUST asks for. InvalidInputError for a value that is none: a typing error must not mean `any`."""
    value = os.environ.get(TRUST_VARIABLE, DEFAULT.value)
    try:
        return Trust(value)
    except ValueError:
        expected = ", ".join(trust.value for trust in Trust)
        raise InvalidInputError("trust", [Fault(f"${TRUST_VARIABLE}", repr(value), f"one of {expected}")]) from None


def read_trusted(path: Path, kind: Kind) -> bytes:
    """The content of a file, as far as this process trusts it; to be executed or parsed from these bytes.

    Raises OSError, SignatureRefusedError, and errors of the floors' store (TetherError).
    """
    trust = required_trust()
    if trust is Trust.ANY:
        _say_any()
        return read_regular(path, SIZE_MAX)
    verifier = _verifier(trust is Trust.PHYSICAL)
    return verifier.admit(verifier.load(path, kind))


@cache
def _verifier(physical: bool) -> Verifier:
    """One for the process: a process is one run."""
    return Verifier(physical)


@cache
def _say_any() -> None:
    _LOG.info("signatures of models and skills are not asked for; %s=%s asks", TRUST_VARIABLE, Trust.SIGNED.value)
