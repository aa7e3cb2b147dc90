"""A Merkle tree of depth 4: up to 16 leaves, SHA-256, leaves and nodes hashed apart as in RFC 6962, section 2.1.

A leaf hashes as SHA-256(0x00 ‖ name ‖ value ‖ stamp ‖ sequence), each text with its length before it, so that no two
leaves have the same input; a node as SHA-256(0x01 ‖ left ‖ right). A place without a leaf has a hash of its own
(0x02 ‖ its number), so that an absent leaf cannot pass for an empty one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

DEPTH = 4
LEAVES_MAX = 2**DEPTH
_LEAF, _NODE, _ABSENT = b"\x00", b"\x01", b"\x02"


@dataclass(frozen=True)
class Leaf:
    """One named value. stamp_ns: when it was set; sequence: number of the update that set it."""

    name: str
    value: bytes
    stamp_ns: int
    sequence: int

    def pack(self) -> bytes:
        """Unambiguous bytes: u16 length and name, u32 length and value, i64 stamp, u64 sequence, big-endian."""
        name = self.name.encode()
        head = struct.pack(">H", len(name)) + name + struct.pack(">I", len(self.value)) + self.value
        return head + struct.pack(">qQ", self.stamp_ns, self.sequence)

    def hash(self) -> bytes:
        """32 bytes."""
        return hashlib.sha256(_LEAF + self.pack()).digest()


def unpack_leaves(data: bytes) -> tuple[Leaf, ...]:
    """The leaves that were packed one after the other into `data`; ValueError where it is anything else."""
    leaves: list[Leaf] = []
    at = 0
    try:
        while at < len(data):
            (length,) = struct.unpack_from(">H", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (length,) = struct.unpack_from(">I", data, at)
            value = data[at + 4 : at + 4 + length]
            at += 4 + length
            leaves.append(Leaf(name, value, *struct.unpack_from(">qQ", data, at)))
            at += 16
    except (struct.error, UnicodeError) as error:
        raise ValueError(f"leaves torn at byte {at} of {len(data)}: {error}") from None
    if b"".join(leaf.pack() for leaf in leaves) != data:
        raise ValueError("leaves are not packed as they should be")
    return tuple(leaves)


class Tree:
    """An immutable tree; `replaced` gives another one that shares all but one path."""

    def __init__(self, levels: tuple[tuple[bytes, ...], ...]) -> None:
        self._levels = levels

    @staticmethod
    def of(leaves: Sequence[Leaf]) -> Tree:
        """The tree of these leaves, in this order. ValueError for more than 16."""
        if len(leaves) > LEAVES_MAX:
            raise ValueError(f"{len(leaves)} leaves, at most {LEAVES_MAX}")
        absent = (hashlib.sha256(_ABSENT + bytes([i])).digest() for i in range(len(leaves), LEAVES_MAX))
        levels = [(*(leaf.hash() for leaf in leaves), *absent)]
        for _ in range(DEPTH):
            below = levels[-1]
            levels.append(tuple(node_hash(below[i], below[i + 1]) for i in range(0, len(below), 2)))
        return Tree(tuple(levels))

    @property
    def root(self) -> bytes:
        """32 bytes that stand for all leaves."""
        return self._levels[DEPTH][0]

    def path(self, index: int) -> tuple[bytes, ...]:
        """The four siblings from leaf `index` up: with them a leaf proves that it is under the root."""
        return tuple(self._levels[level][(index >> level) ^ 1] for level in range(DEPTH))

    def replaced(self, index: int, leaf: Leaf) -> Tree:
        """This tree with another leaf at `index`: five hashes."""
        levels = [list(level) for level in self._levels]
        levels[0][index] = leaf.hash()
        for level in range(DEPTH):
            at = (index >> level) & ~1
            levels[level + 1][index >> (level + 1)] = node_hash(levels[level][at], levels[level][at + 1])
        return Tree(tuple(map(tuple, levels)))


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node."""
    return hashlib.sha256(_NODE + left + right).digest()


def root_from(leaf: Leaf, index: int, path: Sequence[bytes]) -> bytes:
    """The root that `leaf` at `index` leads to by its path."""
    at = leaf.hash()
    for level, sibling in enumerate(path):
        at = node_hash(sibling, at) if (index >> level) & 1 else node_hash(at, sibling)
    return at
