"""The last sequence outside the database: a small signed file with the whole state.

With it an older database is noticed, and the state that it lacks is still there. The file has two slots of 64 KiB,
written in turn and in place: a kill or a power cut in the middle of one leaves the other, a full disk cannot keep it
from being written, and it takes one flush of the disk.

Slot: u32 length of body ‖ u16 length of signature ‖ body ‖ signature (DER).
Body: `tether state anchor` 0x01 ‖ u64 base ‖ u64 sequence ‖ i64 stamp ‖ head (32) ‖ leaves.
base: sequence of the first record of the database file in use.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tether.integrity.merkle import Tree, unpack_leaves
from tether.integrity.record import Snapshot
from tether.signing.ecdsa import PrivateKey, PublicKey
from tether.signing.files import read_regular, write_whole

_MAGIC = b"tether state anchor\x01"
_FIXED = struct.Struct(">QQq32s")
_LENGTHS = struct.Struct(">IH")
SLOT = 65536
STATE_MAX = SLOT - 1024
"""Most bytes of packed leaves that fit a slot beside head and signature."""


@dataclass(frozen=True)
class Anchor:
    """base: which database file is in use. snapshot: the state that was written last.

    torn: the other slot is not the one before it, as a kill during an update leaves it. The database is then ahead.
    """

    base: int
    snapshot: Snapshot
    torn: bool = False


class AnchorFile:
    """The open file. Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    @staticmethod
    def create(path: Path, key: PrivateKey, anchor: Anchor) -> AnchorFile:
        """Write a new file, with `anchor` in both slots, in the place of what was there."""
        write_whole(path, _slot(key, anchor).ljust(SLOT, b"\0") * 2, mode=0o600)
        return AnchorFile(path)

    def write(self, key: PrivateKey, anchor: Anchor) -> None:
        """Write the slot whose turn it is, and wait for the disk."""
        data, at = _slot(key, anchor), SLOT * (anchor.snapshot.sequence % 2)
        if os.pwrite(self._fd, data, at) != len(data):
            raise OSError(f"{self._path}: not written whole")
        os.fdatasync(self._fd)

    def is_same_file(self) -> bool:
        """Whether the path still leads to the file that is open."""
        try:
            there, ours = os.stat(self._path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino, ours.st_size) == (ours.st_dev, ours.st_ino, 2 * SLOT)

    def close(self) -> None:
        """Close; closing again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_anchor(path: Path, key: PublicKey, names: Sequence[str]) -> Anchor:
    """Read and verify: the newer of the slots. Raises FileNotFoundError where there is no file, ValueError where
    neither slot verifies."""
    try:
        data = read_regular(path, 2 * SLOT)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    if len(data) != 2 * SLOT:
        raise ValueError(f"{path}: {len(data)} bytes, expected {2 * SLOT}")
    good: list[Anchor] = []
    faults: list[str] = []
    for slot in (data[:SLOT], data[SLOT:]):
        try:
            good.append(_parsed(slot, key, names))
        except ValueError as error:
            faults.append(str(error))
    if not good:
        raise ValueError(f"{path}: {faults[0]}")
    good.sort(key=lambda anchor: anchor.snapshot.sequence)
    newest = good[-1]
    torn = len(good) < 2 or newest.snapshot.sequence - good[0].snapshot.sequence > 1
    return Anchor(newest.base, newest.snapshot, torn)


def _slot(key: PrivateKey, anchor: Anchor) -> bytes:
    s = anchor.snapshot
    leaves = b"".join(leaf.pack() for leaf in s.leaves)
    body = _MAGIC + _FIXED.pack(anchor.base, s.sequence, s.stamp_ns, s.head) + leaves
    signature = key.sign(body)
    data = _LENGTHS.pack(len(body), len(signature)) + body + signature
    if len(data) > SLOT:
        raise ValueError(f"a state of {len(leaves)} bytes does not fit, at most {STATE_MAX}")
    return data


def _parsed(slot: bytes, key: PublicKey, names: Sequence[str]) -> Anchor:
    body_length, signature_length = _LENGTHS.unpack_from(slot)
    body = slot[_LENGTHS.size : _LENGTHS.size + body_length]
    signature = slot[_LENGTHS.size + body_length : _LENGTHS.size + body_length + signature_length]
    if not body.startswith(_MAGIC) or not key.verifies(body, signature):
        raise ValueError("not signed by this machine's key")
    try:
        base, sequence, stamp_ns, head = _FIXED.unpack_from(body, len(_MAGIC))
    except struct.error:
        raise ValueError("cut off") from None
    leaves = unpack_leaves(body[len(_MAGIC) + _FIXED.size :])
    if tuple(leaf.name for leaf in leaves) != tuple(names):
        raise ValueError(f"does not hold {', '.join(names)}")
    return Anchor(base, Snapshot(sequence, stamp_ns, leaves, Tree.of(leaves).root, head))
