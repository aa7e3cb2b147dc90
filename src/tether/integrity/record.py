"""What a change of the critical state looks like on disk: signed, and chained to the change before it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tether.errors import TetherError
from tether.integrity.merkle import Leaf, Tree, root_from, unpack_leaves
from tether.signing.ecdsa import PrivateKey, PublicKey

_RECORD = b"tether state record\x01"
_HEAD = b"\x03"
NO_RECORD = bytes(32)
"""What the very first record names as the one before it."""
VALUE_MAX = 60_000


class StateError(TetherError):
    """The critical state could not be read or written."""


class Wrong(str, Enum):
    """What can be found wrong with the critical state."""

    DATABASE_MISSING = "database_missing"
    DATABASE_DAMAGED = "database_damaged"
    """SQLite cannot read it, or tables or triggers are not the ones that belong there."""
    DATABASE_BEHIND = "database_behind"
    """It is older than the last sequence kept outside: swapped, restored or cut short."""
    DATABASE_SWAPPED = "database_swapped"
    """Another file lies where the open one was."""
    RECORD_DAMAGED = "record_damaged"
    """A record does not verify: bit flip, forgery, gap or other order."""
    FORKED = "forked"
    """Database and anchor both verify, and tell different histories."""
    ANCHOR_MISSING = "anchor_missing"
    ANCHOR_DAMAGED = "anchor_damaged"
    ANCHOR_BEHIND = "anchor_behind"
    """The last sequence kept outside is older than the database by more than one interrupted update."""
    MEMORY_DAMAGED = "memory_damaged"
    STATE_LOST = "state_lost"
    """Nothing is left that verifies; the initial state is taken."""
    NOT_STORED = "not_stored"
    """An update could not be written (full disk); it is tried again."""


@dataclass(frozen=True)
class Finding:
    """One thing found wrong, for events."""

    wrong: Wrong
    text: str

    def __str__(self) -> str:
        return f"{self.wrong.value}: {self.text}"


@dataclass(frozen=True)
class Snapshot:
    """The critical state after record `sequence`. root: of its Merkle tree. head: hash of the record, which the next
    one names."""

    sequence: int
    stamp_ns: int
    leaves: tuple[Leaf, ...]
    root: bytes
    head: bytes

    @cached_property
    def tree(self) -> Tree:
        """The Merkle tree over the leaves."""
        return Tree.of(self.leaves)

    @cached_property
    def values(self) -> Mapping[str, bytes]:
        """Name → value."""
        return {leaf.name: leaf.value for leaf in self.leaves}

    def intact(self) -> bool:
        """Whether the leaves still hash to the root: 31 hashes, about 40 µs. For whoever relies on them."""
        return Tree.of(self.leaves).root == self.root


@dataclass(frozen=True)
class Record:
    """One update: the leaves it set (the first of a file: all of them), the root it led to, the record before it."""

    sequence: int
    stamp_ns: int
    leaves: tuple[Leaf, ...]
    root: bytes
    previous: bytes
    signature: bytes = b""

    @cached_property
    def body(self) -> bytes:
        """What is signed."""
        leaves = b"".join(leaf.pack() for leaf in self.leaves)
        head = _RECORD + struct.pack(">QqI", self.sequence, self.stamp_ns, len(leaves))
        return head + leaves + self.root + self.previous

    @cached_property
    def head(self) -> bytes:
        """Hash that the next record names as `previous`."""
        return hashlib.sha256(_HEAD + self.body).digest()


def first_record(key: PrivateKey, snapshot: Snapshot, previous: bytes) -> Record:
    """The record that begins a database file with a whole state."""
    return _signed(key, Record(snapshot.sequence, snapshot.stamp_ns, snapshot.leaves, snapshot.root, previous))


def next_record(key: PrivateKey, before: Snapshot, changes: Sequence[Leaf], stamp_ns: int) -> Record:
    """The record that sets `changes`; each leaf carries the new sequence and stamp."""
    after = _applied(before.leaves, changes)
    return _signed(key, Record(before.sequence + 1, stamp_ns, tuple(changes), Tree.of(after).root, before.head))


def opened(record: Record, key: PublicKey, names: Sequence[str]) -> Snapshot:
    """The state of a file's first record; ValueError where it does not verify."""
    if tuple(leaf.name for leaf in record.leaves) != tuple(names):
        raise ValueError(f"record {record.sequence} begins a file and does not hold {', '.join(names)}")
    if any(leaf.sequence > record.sequence for leaf in record.leaves):
        raise ValueError(f"record {record.sequence} holds leaves from later updates")
    _check(record, key, Tree.of(record.leaves).root)
    return Snapshot(record.sequence, record.stamp_ns, record.leaves, record.root, record.head)


def followed(before: Snapshot, record: Record, key: PublicKey) -> Snapshot:
    """The state after `record`; ValueError where it does not verify or is not the one that comes next."""
    if record.sequence != before.sequence + 1:
        raise ValueError(f"record {record.sequence} follows {before.sequence}")
    if record.previous != before.head:
        raise ValueError(f"record {record.sequence} is not chained to record {before.sequence}")
    stamped = all(x.sequence == record.sequence and x.stamp_ns == record.stamp_ns for x in record.leaves)
    if not record.leaves or not stamped:
        raise ValueError(f"record {record.sequence} holds leaves of another update")
    tree, leaves = before.tree, list(before.leaves)
    for leaf in record.leaves:
        index = next((i for i, known in enumerate(leaves) if known.name == leaf.name), None)
        if index is None:
            raise ValueError(f"record {record.sequence} sets {leaf.name!r}, which is not part of the state")
        # The same siblings lead from the old leaf to the old root: nothing but this leaf has changed.
        path = tree.path(index)
        if root_from(leaves[index], index, path) != tree.root:
            raise ValueError(f"leaf {leaf.name!r} is not what the root says it was")
        tree, leaves[index] = tree.replaced(index, leaf), leaf
    _check(record, key, tree.root)
    return Snapshot(record.sequence, record.stamp_ns, tuple(leaves), record.root, record.head)


def record_from(row: Sequence[object]) -> Record:
    """A row of the table; ValueError where a column has another type than it should."""
    sequence, stamp_ns, packed, root, previous, signature = row
    if type(sequence) is not int or type(stamp_ns) is not int or not 0 <= sequence < 2**63:
        raise ValueError(f"record {sequence!r}: sequence or stamp is no number")
    blobs = (packed, root, previous, signature)
    if not all(type(blob) is bytes for blob in blobs):
        raise ValueError(f"record {sequence}: a column is no blob")
    leaves, root32, previous32, made = (bytes(b) for b in blobs if isinstance(b, bytes))
    if len(root32) != 32 or len(previous32) != 32:
        raise ValueError(f"record {sequence}: a hash is not 32 bytes long")
    return Record(sequence, stamp_ns, unpack_leaves(leaves), root32, previous32, made)


def row_from(record: Record) -> tuple[int, int, bytes, bytes, bytes, bytes]:
    """A record as a row of the table."""
    leaves = b"".join(leaf.pack() for leaf in record.leaves)
    return record.sequence, record.stamp_ns, leaves, record.root, record.previous, record.signature


def _applied(leaves: Sequence[Leaf], changes: Sequence[Leaf]) -> tuple[Leaf, ...]:
    new = {leaf.name: leaf for leaf in changes}
    return tuple(new.get(leaf.name, leaf) for leaf in leaves)


def _signed(key: PrivateKey, record: Record) -> Record:
    return Record(record.sequence, record.stamp_ns, record.leaves, record.root, record.previous, key.sign(record.body))


def _check(record: Record, key: PublicKey, root: bytes) -> None:
    if record.root != root:
        raise ValueError(f"record {record.sequence} names another root than its leaves have")
    if not key.verifies(record.body, record.signature):
        raise ValueError(f"record {record.sequence} is not signed by this machine's key")
