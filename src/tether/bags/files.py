"""Opening one file of a bag: what it is by its first bytes, unpacked where the whole file is packed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import zstandard

from tether.bags.damage import DAMAGE, short_reason
from tether.bags.mcap_file import open_mcap
from tether.bags.model import StorageFile
from tether.bags.report import BagError, Loss, LossKind, LossLog
from tether.bags.ros1_file import open_ros1
from tether.bags.sniff import SUFFIXES, FileFormat, looks_like, sniff
from tether.bags.sqlite_file import open_sqlite
from tether.errors import Fault, InvalidInputError

OPENERS: dict[FileFormat, Callable[[Path, str, LossLog], StorageFile]] = {
    FileFormat.MCAP: open_mcap,
    FileFormat.SQLITE: open_sqlite,
    FileFormat.ROS1: open_ros1,
}
UNPACK_STEP_BYTES = 4096
"""Small, because zstd can make 2**15 times as much of it at once."""
SPARE_DISK_BYTES = 2**28
"""So much is left free on the disk when a file is unpacked."""
MAX_UNPACK_RATIO = 1000
"""A file that unpacks to more than this many times its size, and to more than MAX_UNPACK_PLAIN_BYTES, is taken for one
that is made to fill the disk. Recordings shrink to a third or so; what is all zeros, by some thousands."""
MAX_UNPACK_PLAIN_BYTES = 2**28
_UNREADABLE: tuple[type[Exception], ...] = (BagError, *DAMAGE)


@dataclass
class OpenFile:
    """A file of a bag that can be read. compression: of the whole file, or empty."""

    path: Path
    format: FileFormat
    compression: str
    storage: StorageFile


def open_file(path: Path, log: LossLog, stack: ExitStack) -> OpenFile:
    """Open a file; `stack` closes it and removes what was unpacked.

    Raises InvalidInputError where nothing in it can be read.
    """
    try:
        return _open(path, log, stack)
    except InvalidInputError:
        raise
    except _UNREADABLE as error:
        fault = Fault(str(path), short_reason(error), "a readable file")
        raise InvalidInputError("bag", [fault], "nothing in it can be read") from error


def _open(path: Path, log: LossLog, stack: ExitStack) -> OpenFile:
    kind = sniff(path)
    compression, plain, cut = "", path, ""
    if kind is FileFormat.ZSTD:
        compression, plain, cut = "zstd", *_unpack(path, log, stack)
        if cut:
            log.add(Loss(LossKind.TRUNCATED, path.name, cut))
        kind = sniff(plain)
    if kind is None or kind is FileFormat.ZSTD:
        found = looks_like(plain) + (" once unpacked" if compression else "")
        if cut:
            found = f"{path.stat().st_size} bytes, of which {plain.stat().st_size} bytes can be unpacked: {cut}"
        raise InvalidInputError("bag", [Fault(path.name, found, "an MCAP, SQLite or ROS 1 file")])
    named = SUFFIXES.get(Path(path.name.removesuffix(".zstd")).suffix)
    if named is not None and named is not kind:
        log.note(f"{path.name}: named as {named.value}, but it is {kind.value} and read as that")
    storage = OPENERS[kind](plain, path.name, log)
    stack.callback(storage.close)
    return OpenFile(path, kind, compression, storage)


_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a frame that says nothing of the content (RFC 8878, 3.1.2)."""


def _unpack(path: Path, log: LossLog, stack: ExitStack) -> tuple[Path, str]:
    """Undo file compression into a temporary folder; of a file that was cut off, as much as there is, and why."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tether-bag-"))
    plain = Path(folder) / path.name.removesuffix(".zstd")
    whole, why = False, "zstd file compression breaks off"
    size = path.stat().st_size
    limit = min(
        max(MAX_UNPACK_RATIO * size, MAX_UNPACK_PLAIN_BYTES), max(0, shutil.disk_usage(folder).free - SPARE_DISK_BYTES)
    )
    with path.open("rb") as packed, plain.open("wb") as out:
        try:
            unpacker = zstandard.ZstdDecompressor().decompressobj()
            while piece := packed.read(UNPACK_STEP_BYTES):
                while piece:
                    if unpacker.eof:
                        piece += packed.read(max(0, 4 - len(piece)))
                        if not zstandard.FRAME_HEADER.startswith(piece[:4]) and piece[1:4] != _SKIPPABLE:
                            rest = len(piece) + size - packed.tell()
                            log.note(f"{path.name}: {rest} bytes after the end of the zstd compression were not read")
                            return plain, ""
                        unpacker = zstandard.ZstdDecompressor().decompressobj()
                    out.write(unpacker.decompress(piece))
                    if out.tell() > limit:
                        plain.unlink()
                        raise _too_big(path, size, limit)
                    piece = unpacker.unused_data
            whole = unpacker.eof
        except zstandard.ZstdError as error:
            why = f"{why} ({short_reason(error)})"
    return plain, "" if whole else why


def _too_big(path: Path, size: int, limit: int) -> InvalidInputError:
    found = f"its {size:,} bytes unpack to more than {limit:,}"
    expected = f"at most {MAX_UNPACK_RATIO} times as much, and no more than the disk has room for"
    return InvalidInputError("bag", [Fault(path.name, found, expected)], "unpack it by hand where there is room")
