"""A folder of versions of a model: a trainer publishes, whoever runs it takes the newest. Whole or not there.

A version is a folder `v000012` with a model and its manifest. It is written under another name and renamed, so that no
reader ever sees a part of one, whenever the writer is killed. One writer a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tether.errors import Fault, InvalidInputError

_NAME = re.compile(r"v(\d{6})")
_PART = ".part-"
KEPT = 8
"""Versions that stay in the folder; the running one and the one before are in memory wherever they run."""


def publish(folder: Path, write: Callable[[Path], None], kept: int = KEPT) -> Path:
    """Add a version: `write` fills an empty folder. Returns the version's folder.

    Where `write` raises, no version appears. Raises InvalidInputError where the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob(f"{_PART}*"):
            shutil.rmtree(torn, ignore_errors=True)
        number = max((known for known, _ in versions_in(folder)), default=0) + 1
        part = folder / f"{_PART}{number:06d}"
        part.mkdir()
        write(part)
        _sync(part)
        version = folder / f"v{number:06d}"
        os.rename(part, version)
    except OSError as error:
        fault = Fault(str(folder), error.strerror or str(error), "a folder that can be written")
        raise InvalidInputError("versions", [fault]) from error
    for _, old in versions_in(folder)[: -max(kept, 1)]:
        gone = folder / f"{_PART}old-{old.name}"
        with contextlib.suppress(OSError):  # renamed first: nobody reads half a version
            os.rename(old, gone)
        shutil.rmtree(gone, ignore_errors=True)
    return version


def versions_in(folder: Path) -> list[tuple[int, Path]]:
    """Number and folder of each version, oldest first; none where there is no folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(match[1]), folder / match[0]) for name in names if (match := _NAME.fullmatch(name)))


def _sync(folder: Path) -> None:
    """Bring the files of a folder to the disk before its name stands for a whole version."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
