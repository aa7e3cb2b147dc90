"""Shared-memory files that Fast DDS leaves in /dev/shm when a process is killed.

Fast DDS keeps three files a segment or port: `fastrtps_X` (mapped), `fastrtps_X_el` (an flock on it says that
the owner lives) and `sem.fastrtps_X_mutex`. Releases after 2.14 write `fastdds_`. A file is taken for left
behind when nobody holds its lock and no living process maps it: what `fastdds shm clean` goes by, and mapping
besides.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from pathlib import Path

_FILE = re.compile(r"(?:sem\.)?(?P<stem>fast(?:rtps|dds)_(?:port\d+|[0-9a-f]+))(?:_el|_mutex)?")
_SHM = Path("/dev/shm")
_logger = logging.getLogger(__name__)


def left_behind(since_ns: int, folder: Path = _SHM) -> list[Path]:
    """This user's Fast DDS files made since `since_ns` (Unix time) that no living process uses, sorted."""
    groups: dict[str, list[Path]] = {}
    if not folder.is_dir():
        return []
    for path in folder.iterdir():
        match = _FILE.fullmatch(path.name)
        if match and _is_ours(path, since_ns):
            groups.setdefault(match["stem"], []).append(path)
    if not groups:
        return []
    mapped = _mapped_names(folder)
    return sorted(
        path
        for paths in groups.values()
        if not any(path.name in mapped or _is_locked(path) for path in paths)
        for path in paths
    )


def remove_left_behind(since_ns: int, folder: Path = _SHM) -> list[str]:
    """Remove this user's Fast DDS files made since `since_ns` (Unix time) that no living process uses.

    Returns the names removed. Files older than that, or of another user, are not ours to judge.
    """
    removed = []
    for path in left_behind(since_ns, folder):
        path.unlink(missing_ok=True)
        removed.append(path.name)
    if removed:
        _logger.info("removed %d shared-memory files of ended processes", len(removed))
    return removed


def _is_ours(path: Path, since_ns: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_ctime_ns >= since_ns


def _is_locked(path: Path) -> bool:
    """Return whether some process holds an flock on the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _mapped_names(folder: Path) -> set[str]:
    """Return names of files in `folder` that living processes map."""
    prefix = f"{folder}/"
    names: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            maps = (entry / "maps").read_text(errors="replace")
        except OSError:  # ended meanwhile, or another user's
            continue
        names.update(line.split(prefix, 1)[1] for line in maps.splitlines() if prefix in line)
    return names
