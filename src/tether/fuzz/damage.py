"""What is done to bytes: bits turned, odd numbers where numbers stand, pieces missing, doubled or of another."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence

_DOUBLES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-9, 1e6, 1.7e308, -1.7e308, 1e154)
_COUNTS = (0, 1, 2, 0x7F, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


def damaged(raw: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """`raw` with one to three kinds of damage. others: bytes that pieces may come from."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        raw = rng.choice(_KINDS)(raw, rng) if not others or rng.random() < 0.9 else _spliced(raw, rng, others)
    return raw


def _bits(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 8) if raw else 0):
        changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _over(raw: bytes, rng: random.Random, piece: bytes) -> bytes:
    if len(raw) < len(piece):
        return piece
    # numbers stand at multiples of their size after the four bytes that CDR begins with
    at = 4 + len(piece) * rng.randrange(max((len(raw) - 4) // len(piece), 1))
    return raw[:at] + piece + raw[at + len(piece) :]


def _double(raw: bytes, rng: random.Random) -> bytes:
    return _over(raw, rng, struct.pack("<d", rng.choice(_DOUBLES)))


def _count(raw: bytes, rng: random.Random) -> bytes:
    return _over(raw, rng, struct.pack("<I", rng.choice((*_COUNTS, len(raw)))))


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _longer(raw: bytes, rng: random.Random) -> bytes:
    return raw + rng.randbytes(rng.choice((1, 4, 64, 4096)))


def _hole(raw: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(raw) + 1)
    return raw[:at] + raw[at + rng.choice((1, 4, 8)) :]


def _doubled(raw: bytes, rng: random.Random) -> bytes:
    at, end = sorted((rng.randrange(len(raw) + 1), rng.randrange(len(raw) + 1)))
    return raw[:end] + raw[at:end] + raw[end:]


def _noise(raw: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 3, 4, 16, len(raw))))


def _spliced(raw: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return raw[: rng.randrange(len(raw) + 1)] + other[rng.randrange(len(other) + 1) :]


_KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _bits, _bits, _double, _double, _count, _cut, _longer, _hole, _doubled, _noise,
)  # fmt: skip
