"""The bytes of one message: per-message compression undone, and the stamp of its header."""

from __future__ import annotations

import struct

import zstandard

from tether.bags.damage import short_reason
from tether.bags.model import Encoding
from tether.bags.report import CorruptMessageError
from tether.bags.sniff import ZSTD_MAGIC

MAX_MESSAGE_BYTES = 2**30
"""A single message that claims to unpack to more than this is taken for damaged."""
_STAMP_LE = struct.Struct("<iI")
_STAMP_BE = struct.Struct(">iI")


def unpacked(data: bytes) -> bytes:
    """Undo message compression, where there is any. Raises CorruptMessageError.

    A CDR message begins with a zero byte, so zstd's magic is never one.
    """
    if data[:4] != ZSTD_MAGIC:
        return data
    try:
        if zstandard.frame_content_size(data) > MAX_MESSAGE_BYTES:
            raise CorruptMessageError(f"a compressed message that claims more than {MAX_MESSAGE_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_MESSAGE_BYTES)
    except zstandard.ZstdError as error:
        raise CorruptMessageError(f"a compressed message that cannot be unpacked ({short_reason(error)})") from error


def header_stamp_ns(raw: bytes, encoding: Encoding) -> int | None:
    """Stamp of the std_msgs/Header that a message begins with, ns; None where the bytes end before it."""
    if len(raw) < 12:
        return None
    big_endian = encoding is Encoding.CDR and raw[1] == 0
    sec, nanosec = (_STAMP_BE if big_endian else _STAMP_LE).unpack_from(raw, 4)
    return int(sec) * 1_000_000_000 + int(nanosec)
