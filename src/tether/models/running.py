"""Which models something runs, and on which runtimes: what a run records of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tether.models.session import Session


@runtime_checkable
class RunsModels(Protocol):
    """Something that runs models."""

    def sessions(self) -> Sequence[Session]:
        """The models that run at present."""


def runtimes_of(thing: object) -> dict[str, str]:
    """SHA-256 of each model that `thing` runs → what runs it at present, see `Session`; empty where it runs none."""
    if not isinstance(thing, RunsModels):
        return {}
    return {session.manifest.sha256: session.runtime for session in thing.sessions()}
