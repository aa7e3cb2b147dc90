"""Small files that must be whole: written aside, on the disk, then put in place; and where they belong."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

STATE_VARIABLE = "TETHER_STATE"


def state_folder() -> Path:
    """Where this user keeps keys and state of this machine: $TETHER_STATE, else $XDG_STATE_HOME/tether, else
    ~/.local/state/tether. It need not exist."""
    own = os.environ.get(STATE_VARIABLE)
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tether"


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can enter, and the ones above it; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def read_regular(path: Path, bytes_max: int) -> bytes:
    """The content of a regular file, read from one open file, at most `bytes_max` + 1 bytes of it.

    Raises OSError; also for a folder, pipe or device, which could otherwise be waited for without end.
    """
    return read_with_mode(path, bytes_max)[0]


def read_with_mode(path: Path, bytes_max: int) -> tuple[bytes, int]:
    """As `read_regular`, with the file's permissions."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return file.read(bytes_max + 1), stat.S_IMODE(mode)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file so that whatever happens either the old or the new content is there, and stays there.

    Raises OSError, and then the old content is untouched.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            os.fchmod(fd, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
