"""What a file is, decided by its first bytes and never by its name."""

from __future__ import annotations

import stat
from enum import Enum
from pathlib import Path

from tether.bags.report import BagError
from tether.errors import Fault, InvalidInputError

MCAP_MAGIC = b"\x89MCAP0\r\n"
SQLITE_MAGIC = b"SQLite format 3\x00"
ROS1_MAGIC = b"#ROSBAG V"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class FileFormat(str, Enum):
    """Kinds of file that a bag can consist of."""

    MCAP = "mcap"
    SQLITE = "sqlite3"
    ROS1 = "ros1"
    ZSTD = "zstd"
    """A whole file packed with zstd (rosbag2's file compression); what is inside shows after unpacking."""


SUFFIXES = {
    ".mcap": FileFormat.MCAP,
    ".db3": FileFormat.SQLITE,
    ".bag": FileFormat.ROS1,
    ".zstd": FileFormat.ZSTD,
}


def sniff(path: Path) -> FileFormat | None:
    """The file's kind, or None where its first bytes are none of a bag's. Raises BagError if it cannot be
    read."""
    head = head_of(path)
    for magic, kind in (
        (MCAP_MAGIC, FileFormat.MCAP),
        (SQLITE_MAGIC, FileFormat.SQLITE),
        (ROS1_MAGIC, FileFormat.ROS1),
        (ZSTD_MAGIC, FileFormat.ZSTD),
    ):
        if head.startswith(magic):
            return kind
    return None


def head_of(path: Path) -> bytes:
    """The first 16 bytes. Raises BagError for what cannot be read, and for pipes and devices, whose opening may wait
    for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BagError(f"{path}: no regular file (a pipe, socket or device); copy what it carries into a file")
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise BagError(
            f"{path}: cannot be read ({error.strerror or error}); check that it is there and permitted"
        ) from error


_LFS_POINTER = b"version https://"
"""https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md; 15 of the 16 bytes that are looked at."""
_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}


def not_a_bag(path: Path) -> InvalidInputError:
    """The error for a file that is no bag, naming what it looks like instead."""
    head = head_of(path)
    for magic, packer in _PACKED.items():
        if head.startswith(magic):
            fault = Fault(
                str(path), f"a file packed with {packer}", "an MCAP file, a rosbag2 SQLite file or a ROS 1 bag"
            )
            return InvalidInputError("bag", [fault], "unpack it first")
    expected = "an MCAP file, a rosbag2 SQLite file or a ROS 1 bag"
    pointer = head.startswith(_LFS_POINTER)
    fix = "fetch it with `git lfs pull`" if pointer else "record again, or name the folder or file of a bag"
    return InvalidInputError("bag", [Fault(str(path), looks_like(path), expected)], fix)


def looks_like(path: Path) -> str:
    """A few words on what a file that is no bag seems to be."""
    head = head_of(path)
    if not head:
        return "an empty file (0 bytes)"
    if head.startswith(_LFS_POINTER):
        return "a Git LFS pointer, not the file itself (`git lfs pull` fetches it)"
    if all(32 <= byte < 127 or byte in (9, 10, 13) for byte in head):
        return f"text, beginning {head.decode('ascii')!r}"
    return f"{path.stat().st_size} bytes beginning {head.hex(' ')}"
