"""Whether a physical robot would execute what a version holds, asked without leaving a trace.

Verifying a version raises its floor (`tether.signing.floors`), after which older ones are refused for good. That must
happen when a version is in use, not when it is only tried: what fails must leave the way back open. So a trial stands
on a copy of the state.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tether.deploy.bundle import REVOCATIONS
from tether.deploy.errors import DeployError, Reason
from tether.errors import TetherError
from tether.signing.files import state_folder
from tether.signing.revocations import install_newer, revocations_path
from tether.signing.statement import Kind, SignatureRefusedError
from tether.signing.trust import trusted_keys
from tether.signing.verify import Verifier

_KEPT = ("versions", "signatures")
_PATTERNS = (("**/manifest.json", Kind.MODEL), ("skills/**/*.py", Kind.SKILL))


@contextmanager
def scratch_state() -> Iterator[Path]:
    """A copy of this user's floors, signatures and revocations, gone afterwards."""
    source = state_folder()
    with tempfile.TemporaryDirectory(prefix="tether-trial-") as name:
        scratch = Path(name) / "state"
        scratch.mkdir(mode=0o700)
        with _held(source / "versions" / "lock"):
            for kept in _KEPT:
                if (source / kept).is_dir():
                    shutil.copytree(source / kept, scratch / kept)
        if revocations_path().exists():
            shutil.copy2(revocations_path(), scratch)
        yield scratch


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Nobody writes the floors meanwhile; their holders keep the lock for milliseconds."""
    if not lock.exists():
        yield
        return
    fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def take_revocations(folder: Path, state: Path | None = None) -> int | None:
    """Put the revocation list of a version in force; returns its number, None where it brings nothing newer.

    It stays whatever becomes of the version. Raises DeployError (REFUSED). state: instead of this user's.
    """
    source = folder / REVOCATIONS
    if not source.exists():
        return None
    try:
        taken = install_newer(source, trusted_keys(), state)
    except SignatureRefusedError as error:
        fix = "sign the list with a key that the robot knows and no list revoked: `tether sign --key KEY --revoke ID`"
        raise DeployError(Reason.REFUSED, str(error), fix) from None
    return None if taken is None else taken.sequence


def check_signatures(models: Path, version: Path | None = None) -> int:
    """Verify every model and skill below a folder as a physical robot does; returns how many there are.

    version: whose revocation list counts, where it is newer than the one here; nothing of it is kept.
    Raises DeployError (REFUSED) with all that is refused.
    """
    refused = []
    targets = [(path, kind) for pattern, kind in _PATTERNS for path in sorted(models.glob(pattern))]
    with scratch_state() as scratch:
        if version is not None:
            take_revocations(version, scratch)
        verifier = Verifier(physical=True, state=scratch)
        for path, kind in targets:
            try:
                verifier.admit(verifier.load(path, kind))
            except TetherError as error:
                refused.append(str(error))
    if refused:
        fix = "sign each with the robot's key: `tether sign --key KEY --name NAME --release N FOLDER` (docs/robot.md)"
        raise DeployError(Reason.REFUSED, "\n".join(refused), fix)
    return len(targets)
