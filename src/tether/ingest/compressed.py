"""Compressed pictures (sensor_msgs/CompressedImage), known by their first bytes whatever `format` says.

Drivers write "jpeg", "jpg", "bgr8; jpeg compressed bgr8" or nothing into `format`; the file's own signature
does not lie. Decoding is Pillow's (libjpeg-turbo, libpng, libwebp): kept for decades, wheels for every
platform, no GUI or ROS.
"""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image, UnidentifiedImageError

from tether.ingest.encodings import (
    MAX_PIXELS,
    MAX_SIDE,
    Buffer,
    ColourImage,
    DepthImage,
    Picture,
    depth_from_mm,
)
from tether.ingest.rejection import Reason, RejectedError

_PNG = b"\x89PNG\r\n\x1a\n"
_SIGNATURES = (("JPEG", b"\xff\xd8\xff"), ("PNG", _PNG), ("BMP", b"BM"))
_DEPTH_HEADER_BYTES = 12
"""compressed_depth_image_transport puts its ConfigHeader (enum and two floats) before the PNG."""


def sniff(data: bytes) -> str | None:
    """Name of the format that the first bytes stand for: JPEG, PNG, BMP, WEBP, or None."""
    head = data[:12]
    for name, signature in _SIGNATURES:
        if head.startswith(signature):
            return name
    return "WEBP" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def decode_compressed(format_field: str, data: Buffer) -> Picture:
    """Decode one compressed picture; raises RejectedError with the reason where it cannot be believed.

    A 16-bit grey PNG is depth in millimetres where `format_field` begins with 16UC1, and mono16 otherwise:
    the one thing that the bytes cannot tell.
    """
    raw = bytes(data)
    name = sniff(raw)
    if name is None:
        raise _unknown(format_field, raw)
    try:
        with Image.open(io.BytesIO(raw), formats=[name]) as image:
            _check_size(name, image)
            _check_whole(name, raw)
            image.load()
            return _to_picture(image, format_field)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RejectedError(Reason.TOO_LARGE, f"{name}: {error}, expected at most {MAX_PIXELS} pixels") from error
    except UnidentifiedImageError as error:
        reason = Reason.TRUNCATED if len(raw) < 64 else Reason.CORRUPT
        raise RejectedError(reason, f"{name} of {len(raw)} bytes has no readable header") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        reason = Reason.TRUNCATED if "truncated" in str(error).lower() else Reason.CORRUPT
        raise RejectedError(reason, f"{name} of {len(raw)} bytes: {error}") from error


def _unknown(format_field: str, raw: bytes) -> RejectedError:
    said = f"format says {format_field[:60]!r}"
    if len(raw) == 0:
        return RejectedError(Reason.EMPTY_IMAGE, f"no data; {said}")
    behind = bytes(raw[_DEPTH_HEADER_BYTES : _DEPTH_HEADER_BYTES + 8])
    if "compressedDepth" in format_field or behind == _PNG:
        return RejectedError(
            Reason.UNSUPPORTED_FORMAT,
            f"compressedDepth is not decoded here, publish 16UC1 raw or as PNG; {said}",
        )
    first = raw[:8].hex(" ")
    return RejectedError(
        Reason.UNKNOWN_FORMAT,
        f"first bytes {first}, expected JPEG, PNG, BMP or WebP; {said}, which is not believed",
    )


def _check_size(name: str, image: Image.Image) -> None:
    """Before any pixel is decoded: a few kilobytes of PNG can stand for gigabytes."""
    width, height = image.size
    if width < 1 or height < 1:
        raise RejectedError(Reason.EMPTY_IMAGE, f"{name} of {width}x{height}, expected at least 1x1")
    if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_PIXELS:
        raise RejectedError(
            Reason.TOO_LARGE,
            f"{name} of {width}x{height}, expected sides up to {MAX_SIDE} and {MAX_PIXELS} pixels",
        )


def _check_whole(name: str, raw: bytes) -> None:
    """libjpeg fills what is missing with grey and only warns, so the end marker is looked for here.

    Padding after it is common in buffers of fixed size, hence the search; in entropy-coded data ff is always
    stuffed with 00, so the marker cannot be found by chance. A thumbnail's marker lies in the header, far
    from the end.
    """
    if name == "JPEG" and raw.rfind(b"\xff\xd9") < raw.rfind(b"\xff\xda"):
        raise RejectedError(Reason.TRUNCATED, f"JPEG of {len(raw)} bytes has no end marker")


def _to_picture(image: Image.Image, format_field: str) -> Picture:
    if image.mode in ("I;16", "I;16B", "I"):
        grey = np.asarray(image).astype(np.uint16)
        if format_field.startswith("16UC1"):
            return DepthImage(depth_from_mm(grey).depth_m)
        eight = (grey >> 8).astype(np.uint8)
        return ColourImage(np.repeat(eight[:, :, None], 3, axis=2))
    if image.mode == "F":
        raise RejectedError(Reason.UNSUPPORTED_FORMAT, "a picture of floating point numbers, expected 8 or 16 bit")
    return ColourImage(np.asarray(image if image.mode == "RGB" else image.convert("RGB")))
