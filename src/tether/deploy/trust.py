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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tether.deploy.errors import DeployError, Reason
from tether.errors import TetherError
from tether.signing.files import state_folder
from tether.signing.statement import Kind
from tether.signing.trust import TrustedKey
from tether.signing.verify import Verifier

_KEPT = ("versions", "signatures")
_PATTERNS = (("**/manifest.json", Kind.MODEL), ("skills/**/*.py", Kind.SKILL))


@contextmanager
def scratch_state(state: Path | None = None) -> Iterator[Path]:
    """A copy of this user's floors, signatures and revocations, gone afterwards."""
    source = state_folder() if state is None else state
    with tempfile.TemporaryDirectory(prefix="tether-trial-") as name:
        scratch = Path(name) / "state"
        scratch.mkdir(mode=0o700)
        with _held(source / "versions" / "lock"):
            for kept in _KEPT:
                if (source / kept).is_dir():
                    shutil.copytree(source / kept, scratch / kept)
        if (source / "revocations.json").exists():
            shutil.copy2(source / "revocations.json", scratch)
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


def check_signatures(models: Path, keys: Mapping[str, TrustedKey] | None = None, state: Path | None = None) -> int:
    """Verify every model and skill below a folder as a physical robot does; returns how many there are.

    Raises DeployError (REFUSED) with all that is refused. keys, state: for tests.
    """
    refused = []
    targets = [(path, kind) for pattern, kind in _PATTERNS for path in sorted(models.glob(pattern))]
    with scratch_state(state) as scratch:
        verifier = Verifier(physical=True, keys=keys, state=scratch)
        for path, kind in targets:
            try:
                verifier.admit(verifier.load(path, kind))
            except TetherError as error:
                refused.append(str(error))
    if refused:
        fix = "sign each with the robot's key: `tether sign --key KEY --name NAME --release N FOLDER` (docs/robot.md)"
        raise DeployError(Reason.REFUSED, "\n".join(refused), fix)
    return len(targets)
