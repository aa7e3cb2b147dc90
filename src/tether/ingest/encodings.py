"""Raw pictures (sensor_msgs/Image, REP 118) into what a policy takes: (H, W, 3) uint8 RGB, or depth in
metres.

Works on plain fields, so that live messages and messages out of a bag go the same way. Everything is NumPy on
whole planes; an unpadded rgb8 picture is a view of the message's own memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tether.contracts import F32, U8
from tether.ingest.colour import bayer_to_rgb, yuv422_to_rgb
from tether.ingest.rejection import Reason, RejectedError

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
Plane = NDArray[np.unsignedinteger]

MAX_SIDE = 16_384
"""Pixels along a side beyond which a header is taken for garbage."""
MAX_PIXELS = 64_000_000
"""Pixels of a picture that will still be decoded: 64 MP, above any camera a small robot carries."""


@dataclass(frozen=True, eq=False)
class ColourImage:
    """rgb: (H, W, 3) uint8. May be a read-only view of the message."""

    rgb: U8


@dataclass(frozen=True, eq=False)
class DepthImage:
    """depth_m: (H, W) float32, metres along the optical axis; NaN where nothing was measured, ±inf as REP 117
    has it.

    A depth picture is not a colour picture: it is never squeezed into 8 bits, and a colour pipeline refuses
    it by name.
    """

    depth_m: F32


Picture = ColourImage | DepthImage


@dataclass(frozen=True)
class _Layout:
    channels: int
    bytes_per_channel: int
    convert: Callable[[Plane], Picture]

    @property
    def pixel_bytes(self) -> int:
        return self.channels * self.bytes_per_channel


class Order8UC3(str, Enum):
    """What a camera means by the nameless encoding 8UC3; to be stated, as nothing in it tells."""

    RGB = "rgb8"
    BGR = "bgr8"


def decode_raw(
    encoding: str,
    width: int,
    height: int,
    step: int,
    is_bigendian: bool,
    data: Buffer,
    order_8uc3: Order8UC3 | None = None,
) -> Picture:
    """Decode one raw picture; raises RejectedError with the reason where it cannot be believed.

    step: bytes a row, padding included. order_8uc3: meaning of 8UC3, which is refused as ambiguous where
    None.
    """
    layout = _layout(encoding, order_8uc3)
    _check_size(encoding, width, height)
    row = width * layout.pixel_bytes
    if step < row:
        raise RejectedError(
            Reason.BAD_STEP, f"step {step} for {width} pixels of {encoding}, expected at least {row} bytes"
        )
    flat = np.frombuffer(data, dtype=np.uint8)
    _check_bytes(flat.size, step * height, f"{width}x{height} {encoding} with step {step}")
    return layout.convert(_plane(flat, height, width, step, layout, is_bigendian))


def _layout(encoding: str, order_8uc3: Order8UC3 | None) -> _Layout:
    if encoding.upper() == "8UC3":
        if order_8uc3 is None:
            raise RejectedError(
                Reason.AMBIGUOUS_ENCODING,
                "8UC3 may be RGB or BGR; have the driver say rgb8 or bgr8, or declare the order",
            )
        return _LAYOUTS[order_8uc3.value]
    layout = _LAYOUTS.get(encoding) or _LAYOUTS.get(encoding.upper())
    if layout is None:
        known = ", ".join(sorted(_LAYOUTS))
        raise RejectedError(Reason.UNKNOWN_ENCODING, f"encoding {encoding[:40]!r}, expected one of {known}")
    return layout


def _check_size(encoding: str, width: int, height: int) -> None:
    if width <= 0 or height <= 0:
        raise RejectedError(Reason.EMPTY_IMAGE, f"size {width}x{height}, expected at least 1x1")
    if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_PIXELS:
        raise RejectedError(
            Reason.TOO_LARGE,
            f"size {width}x{height}, expected sides up to {MAX_SIDE} and {MAX_PIXELS} pixels",
        )
    if _is_yuv(encoding) and width % 2:
        raise RejectedError(Reason.BAD_SIZE, f"width {width}, expected an even one: {encoding} pairs pixels")
    if encoding.startswith("bayer") and (width < 2 or height < 2):
        raise RejectedError(Reason.BAD_SIZE, f"size {width}x{height}, expected at least one 2x2 Bayer cell")


def _check_bytes(found: int, expected: int, what: str) -> None:
    if found < expected:
        raise RejectedError(Reason.SHORT_DATA, f"{found} bytes for {what}, expected {expected}")
    if found > expected:
        raise RejectedError(
            Reason.BAD_SIZE,
            f"{found} bytes for {what}, expected {expected}: the header is of another picture",
        )


def _plane(flat: U8, height: int, width: int, step: int, layout: _Layout, is_bigendian: bool) -> Plane:
    """The pixels as (H, W) or (H, W, C) without padding, in host byte order; a view if possible."""
    pixels: Plane = flat.reshape(height, step)[:, : width * layout.pixel_bytes]
    if layout.bytes_per_channel > 1:
        kind = np.dtype(f"{'>' if is_bigendian else '<'}u{layout.bytes_per_channel}")
        pixels = np.ascontiguousarray(pixels).view(kind).astype(kind.newbyteorder("="), copy=False)
    if layout.channels == 1:
        return pixels
    # Splitting the last axis never needs a copy, whatever the row stride.
    return pixels.reshape(height, width, layout.channels)


def _is_yuv(encoding: str) -> bool:
    return encoding in ("yuv422", "uyvy", "yuv422_yuy2", "yuyv")


def _high_byte(plane: Plane) -> U8:
    """The upper eight bits of full-scale 16-bit samples. 10- and 12-bit cameras must scale to mono16."""
    return np.asarray(plane if plane.dtype == np.uint8 else plane >> 8, dtype=np.uint8)


def _order(*channels: int) -> Callable[[Plane], Picture]:
    index = list(channels)
    if index == [0, 1, 2]:
        return lambda plane: ColourImage(_high_byte(plane)[:, :, :3])
    return lambda plane: ColourImage(np.ascontiguousarray(_high_byte(plane)[:, :, index]))


def _grey(plane: Plane) -> Picture:
    eight = _high_byte(plane)
    return ColourImage(np.repeat(eight[:, :, None], 3, axis=2))


def _bayer(pattern: str) -> Callable[[Plane], Picture]:
    return lambda plane: ColourImage(bayer_to_rgb(_high_byte(plane), pattern))


def _yuv(first_luma: int) -> Callable[[Plane], Picture]:
    return lambda plane: ColourImage(yuv422_to_rgb(_high_byte(plane), first_luma))


def depth_from_mm(plane: Plane) -> DepthImage:
    """(H, W) uint16 millimetres to metres; 0 means nothing measured (REP 118)."""
    metres = plane.astype(np.float32) * np.float32(0.001)
    metres[plane == 0] = np.nan
    return DepthImage(metres)


def _depth_from_float(plane: Plane) -> DepthImage:
    return DepthImage(plane.view(np.float32))


_LAYOUTS: dict[str, _Layout] = {
    "rgb8": _Layout(3, 1, _order(0, 1, 2)),
    "bgr8": _Layout(3, 1, _order(2, 1, 0)),
    "rgba8": _Layout(4, 1, _order(0, 1, 2)),
    "bgra8": _Layout(4, 1, _order(2, 1, 0)),
    "rgb16": _Layout(3, 2, _order(0, 1, 2)),
    "bgr16": _Layout(3, 2, _order(2, 1, 0)),
    "rgba16": _Layout(4, 2, _order(0, 1, 2)),
    "bgra16": _Layout(4, 2, _order(2, 1, 0)),
    "mono8": _Layout(1, 1, _grey),
    "8UC1": _Layout(1, 1, _grey),
    "mono16": _Layout(1, 2, _grey),
    "yuv422": _Layout(2, 1, _yuv(1)),
    "uyvy": _Layout(2, 1, _yuv(1)),
    "yuv422_yuy2": _Layout(2, 1, _yuv(0)),
    "yuyv": _Layout(2, 1, _yuv(0)),
    "16UC1": _Layout(1, 2, depth_from_mm),
    "32FC1": _Layout(1, 4, _depth_from_float),
    **{
        f"bayer_{pattern}{bits}": _Layout(1, bits // 8, _bayer(pattern))
        for pattern in ("rggb", "bggr", "gbrg", "grbg")
        for bits in (8, 16)
    },
}
"""By encoding. yuv422 is U Y V Y and yuv422_yuy2 is Y U Y V (sensor_msgs/image_encodings.hpp)."""
