"""State that nothing depends on but comfort (caches, last view, counters): a CRC-32 tells damage from content.

A CRC finds what disks and crashes do (every burst up to 32 bits), not what people do. Critical state belongs into
`tether.integrity.store`.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tether.errors import TetherError
from tether.signing.files import write_whole

_MAGIC = b"TCRC\x01"
_HEAD = struct.Struct(">5sQI")
SIZE_MAX = 64 * 2**20


class DamagedError(TetherError):
    """Content that does not fit its checksum."""


def sealed(payload: bytes) -> bytes:
    """magic, u64 length, u32 CRC-32 over length and payload, payload."""
    return _HEAD.pack(_MAGIC, len(payload), _crc(payload)) + payload


def unsealed(data: bytes, origin: str = "data") -> bytes:
    """The payload; DamagedError where a byte is missing, too many or changed."""
    if len(data) < _HEAD.size:
        raise DamagedError(f"{origin}: {len(data)} bytes, expected at least {_HEAD.size}; it was cut off")
    magic, length, crc = _HEAD.unpack_from(data)
    payload = data[_HEAD.size :]
    if magic != _MAGIC or length != len(payload) or crc != _crc(payload):
        raise DamagedError(f"{origin}: does not fit its CRC-32; remove it, it will be made anew")
    return payload


def write_sealed(path: Path, payload: bytes) -> None:
    """Write `payload` under its checksum, whole or not at all. Raises OSError."""
    write_whole(path, sealed(payload))


def read_sealed(path: Path) -> bytes:
    """What `write_sealed` wrote. Raises OSError, DamagedError."""
    with path.open("rb") as file:
        return unsealed(file.read(SIZE_MAX + _HEAD.size + 1), str(path))


def _crc(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack(">Q", len(payload))))
