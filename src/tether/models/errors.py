"""Why a model was refused. Nothing of a refused model stays loaded."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tether.errors import Fault, InvalidInputError


class Refusal(str, Enum):
    """What kind of thing is wrong, for those who choose a fallback by it."""

    MISSING = "missing"
    """A file is not there or cannot be read."""
    MANIFEST = "manifest"
    """The manifest is no valid one."""
    SIGNATURE = "signature"
    """The manifest is not signed as this process asks for, see `tether.signing.policy`."""
    HASH = "hash"
    """The model file is not the one the manifest was written for: changed, truncated or another one."""
    DAMAGED = "damaged"
    """The model file is no whole ONNX model."""
    VERSION = "version"
    """Operator set or IR of the model are not what the manifest says, or newer than this runtime knows."""
    FOREIGN = "foreign"
    """A sound model, but not for this place: another kind, other inputs or outputs, another robot or skill table."""
    RUNTIME = "runtime"
    """The library that is to run it is missing, of another version, or failed."""
    INPUT = "input"
    """What it was given to run on does not fit its inputs."""


class ModelRefusedError(InvalidInputError):
    """A model, or what it was to run on, was refused; `refusal` says for which kind of reason."""

    def __init__(self, refusal: Refusal, what: str, faults: Sequence[Fault], fix: str = "") -> None:
        self.refusal = refusal
        super().__init__(what, faults, fix)
