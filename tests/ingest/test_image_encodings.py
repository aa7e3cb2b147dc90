"""Raw pictures: every encoding against plain arithmetic, and every malformed message refused by name."""

from __future__ import annotations

import array
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tether.ingest.encodings import (
    Buffer,
    ColourImage,
    DepthImage,
    Order8UC3,
    decode_raw,
)
from tether.ingest.rejection import Reason, RejectedError

U8 = NDArray[np.uint8]
H, W = 6, 8
RGB = np.random.default_rng(1).integers(0, 256, (H, W, 3), dtype=np.uint8)


def packed(pixels: np.ndarray, padding: int = 0) -> tuple[int, bytes]:
    """step and bytes of `pixels`, each row followed by `padding` bytes that must never show."""
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(pixels.shape[0], -1)
    padded = np.full((rows.shape[0], rows.shape[1] + padding), 0xEE, dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.shape[1], padded.tobytes()


def colour(encoding: str, pixels: np.ndarray, padding: int = 0, big: bool = False) -> U8:
    step, data = packed(pixels, padding)
    picture = decode_raw(encoding, pixels.shape[1], pixels.shape[0], step, big, data)
    assert isinstance(picture, ColourImage)
    assert picture.rgb.dtype == np.uint8 and picture.rgb.shape == (*pixels.shape[:2], 3)
    return picture.rgb


def refused(encoding: str, width: int, height: int, step: int, data: Buffer) -> tuple[Reason, str]:
    with pytest.raises(RejectedError) as caught:
        decode_raw(encoding, width, height, step, False, data)
    return caught.value.rejection.reason, caught.value.rejection.detail


ALPHA = np.full((H, W, 1), 7, dtype=np.uint8)
EIGHT_BIT: dict[str, Callable[[], np.ndarray]] = {
    "rgb8": lambda: RGB,
    "bgr8": lambda: RGB[:, :, ::-1],
    "rgba8": lambda: np.concatenate((RGB, ALPHA), axis=2),
    "bgra8": lambda: np.concatenate((RGB[:, :, ::-1], ALPHA), axis=2),
}
PADDINGS = pytest.mark.parametrize("padding", [0, 1, 5, 32])


@PADDINGS
@pytest.mark.parametrize("encoding", EIGHT_BIT)
def test_eight_bit_colour_comes_out_as_rgb_with_any_row_padding(encoding: str, padding: int) -> None:
    assert np.array_equal(colour(encoding, EIGHT_BIT[encoding](), padding), RGB)


@PADDINGS
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("encoding", ["rgb16", "bgr16", "rgba16", "bgra16"])
def test_sixteen_bit_colour_keeps_the_high_byte_in_either_byte_order(encoding: str, big: bool, padding: int) -> None:
    low = np.random.default_rng(2).integers(0, 256, (H, W, 4)).astype(np.uint16)
    pixels = (EIGHT_BIT[encoding.replace("16", "8")]().astype(np.uint16) << 8) | low[
        :, :, : 4 if "a" in encoding else 3
    ]
    stored = pixels.astype(">u2" if big else "<u2")
    assert np.array_equal(colour(encoding, stored, padding, big), RGB)


@PADDINGS
@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_grey_comes_out_with_three_equal_channels(encoding: str, padding: int) -> None:
    grey = RGB[:, :, 0]
    assert np.array_equal(colour(encoding, grey, padding), np.stack([grey] * 3, axis=2))


@PADDINGS
@pytest.mark.parametrize("big", [False, True])
def test_mono16_keeps_the_high_byte_in_either_byte_order(big: bool, padding: int) -> None:
    grey = RGB[:, :, 0].astype(np.uint16) * 256 + 3
    rgb = colour("mono16", grey.astype(">u2" if big else "<u2"), padding, big)
    assert np.array_equal(rgb, np.stack([RGB[:, :, 0]] * 3, axis=2))


def yuv_reference(y: int, u: int, v: int) -> list[float]:
    """BT.601, video range, in real numbers (ITU-R BT.601-7, section 2.5)."""
    luma = (y - 16) * 255 / 219
    return [
        luma + 1.402 * 255 / 224 * (v - 128),
        luma - (0.344136 * (u - 128) + 0.714136 * (v - 128)) * 255 / 224,
        luma + 1.772 * 255 / 224 * (u - 128),
    ]


@PADDINGS
@pytest.mark.parametrize(("encoding", "luma_at"), [("yuv422", 1), ("uyvy", 1), ("yuv422_yuy2", 0), ("yuyv", 0)])
def test_yuv422_agrees_with_bt601_in_real_numbers(encoding: str, luma_at: int, padding: int) -> None:
    pairs = np.random.default_rng(4).integers(0, 256, (H, W, 2), dtype=np.uint8)
    rgb = colour(encoding, pairs, padding)
    for row in range(H):
        for column in range(W):
            first = column - column % 2
            u, v = int(pairs[row, first, 1 - luma_at]), int(pairs[row, first + 1, 1 - luma_at])
            expected = np.clip(yuv_reference(int(pairs[row, column, luma_at]), u, v), 0, 255)
            assert np.abs(rgb[row, column] - expected).max() <= 1.0


def test_yuv422_of_odd_width_is_refused() -> None:
    assert refused("yuv422", 3, 2, 6, bytes(12))[0] is Reason.BAD_SIZE


def bayer_reference(mosaic: U8, pattern: str) -> U8:
    """Bilinear demosaicing pixel by pixel, edges mirrored."""
    h, w = mosaic.shape
    out = np.zeros((h, w, 3), dtype=np.uint8)

    def mirrored(i: int, n: int) -> int:
        return -i if i < 0 else 2 * (n - 1) - i if i >= n else i

    for r in range(h):
        for c in range(w):
            for channel, name in enumerate("rgb"):
                if pattern[(r % 2) * 2 + c % 2] == name:
                    out[r, c, channel] = mosaic[r, c]
                    continue
                around = [
                    int(mosaic[mirrored(r + dr, h), mirrored(c + dc, w)])
                    for dr in (-1, 0, 1)
                    for dc in (-1, 0, 1)
                    if pattern[((r + dr) % 2) * 2 + (c + dc) % 2] == name
                ]
                out[r, c, channel] = (2 * sum(around) + len(around)) // (2 * len(around))
    return out


@PADDINGS
@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
@pytest.mark.parametrize(("height", "width"), [(6, 8), (5, 7), (2, 2)])
def test_bayer_agrees_with_bilinear_interpolation_pixel_by_pixel(
    pattern: str, height: int, width: int, padding: int
) -> None:
    mosaic = np.random.default_rng(5).integers(0, 256, (height, width), dtype=np.uint8)
    assert np.array_equal(colour(f"bayer_{pattern}8", mosaic, padding), bayer_reference(mosaic, pattern))


@pytest.mark.parametrize("big", [False, True])
def test_bayer16_keeps_the_high_byte_in_either_byte_order(big: bool) -> None:
    mosaic = RGB[:, :, 1]
    wide = (mosaic.astype(np.uint16) * 256 + 9).astype(">u2" if big else "<u2")
    assert np.array_equal(colour("bayer_grbg16", wide, 0, big), bayer_reference(mosaic, "grbg"))


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_bayer_of_a_uniform_colour_is_that_colour(pattern: str) -> None:
    value = {"r": 200, "g": 120, "b": 40}
    cell = np.array([[value[pattern[0]], value[pattern[1]]], [value[pattern[2]], value[pattern[3]]]], dtype=np.uint8)
    assert (colour(f"bayer_{pattern}8", np.tile(cell, (4, 4))) == (200, 120, 40)).all()


@PADDINGS
@pytest.mark.parametrize("big", [False, True])
def test_16uc1_is_depth_in_metres_with_nan_where_nothing_was_measured(big: bool, padding: int) -> None:
    mm = np.array([[0, 1000, 65535], [1, 0, 250]], dtype=np.uint16)
    step, data = packed(mm.astype(">u2" if big else "<u2"), padding)
    picture = decode_raw("16UC1", 3, 2, step, big, data)
    assert isinstance(picture, DepthImage)
    np.testing.assert_allclose(picture.depth_m, [[np.nan, 1.0, 65.535], [0.001, np.nan, 0.25]], rtol=1e-6)


@PADDINGS
@pytest.mark.parametrize("big", [False, True])
def test_32fc1_is_depth_with_nan_and_infinity_kept(big: bool, padding: int) -> None:
    metres = np.array([[0.5, np.nan], [np.inf, -np.inf], [3.25, 0.0]], dtype=np.float32)
    step, data = packed(metres.astype(">f4" if big else "<f4"), padding)
    picture = decode_raw("32FC1", 2, 3, step, big, data)
    assert isinstance(picture, DepthImage) and picture.depth_m.dtype == np.float32
    np.testing.assert_array_equal(picture.depth_m, metres)


def test_8uc3_is_refused_as_ambiguous_until_its_order_is_declared() -> None:
    step, data = packed(RGB)
    assert refused("8UC3", W, H, step, data)[0] is Reason.AMBIGUOUS_ENCODING
    picture = decode_raw("8UC3", W, H, step, False, data, Order8UC3.BGR)
    assert isinstance(picture, ColourImage) and np.array_equal(picture.rgb, RGB[:, :, ::-1])


@pytest.mark.parametrize("encoding", ["", "jpeg", "rgb", "64FC1", "nv21", "rgb8; jpeg", "x" * 1000])
def test_unknown_encoding_is_refused_with_the_list_of_known_ones(encoding: str) -> None:
    reason, detail = refused(encoding, 1, 1, 100, bytes(100))
    assert reason is Reason.UNKNOWN_ENCODING and "yuv422_yuy2" in detail and len(detail) < 600


def test_short_data_is_refused_with_the_numbers() -> None:
    reason, detail = refused("rgb8", 640, 480, 1920, bytes(30))
    assert reason is Reason.SHORT_DATA and "30 bytes" in detail and "921600" in detail


def test_one_missing_byte_of_padding_is_short_data() -> None:
    step, data = packed(RGB, padding=4)
    assert refused("rgb8", W, H, step, data[:-1])[0] is Reason.SHORT_DATA


def test_more_data_than_the_header_says_is_refused() -> None:
    step, data = packed(RGB)
    assert refused("rgb8", W, H, step, data + b"\0")[0] is Reason.BAD_SIZE


def test_step_shorter_than_a_row_is_refused() -> None:
    reason, detail = refused("rgb8", W, H, W * 3 - 1, bytes(H * (W * 3 - 1)))
    assert reason is Reason.BAD_STEP and str(W * 3) in detail


def test_step_zero_is_refused() -> None:
    assert refused("rgb8", W, H, 0, bytes(H * W * 3))[0] is Reason.BAD_STEP


@pytest.mark.parametrize(("width", "height"), [(0, 0), (0, 4), (4, 0)])
def test_empty_picture_is_refused(width: int, height: int) -> None:
    assert refused("rgb8", width, height, width * 3, b"")[0] is Reason.EMPTY_IMAGE


@pytest.mark.parametrize(("width", "height"), [(2**32 - 1, 2**32 - 1), (1, 2**31), (16_384, 16_384)])
def test_absurd_dimensions_are_refused_before_any_memory_is_taken(width: int, height: int) -> None:
    tracemalloc.start()
    reason, _ = refused("mono8", width, height, width, bytes(64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reason is Reason.TOO_LARGE and peak < 1_000_000


@pytest.mark.parametrize(
    "wrap",
    [bytes, bytearray, memoryview, lambda b: array.array("B", b), lambda b: np.frombuffer(b, dtype=np.uint8)],
    ids=["bytes", "bytearray", "memoryview", "array", "ndarray"],
)
def test_data_of_every_kind_that_messages_carry_is_taken(wrap: Callable[[bytes], Buffer]) -> None:
    step, data = packed(RGB, padding=3)
    picture = decode_raw("rgb8", W, H, step, False, wrap(data))
    assert isinstance(picture, ColourImage) and np.array_equal(picture.rgb, RGB)


@pytest.mark.parametrize("padding", [0, 12])
def test_rgb8_is_a_view_of_the_message_and_copies_nothing(padding: int) -> None:
    step, data = packed(RGB, padding)
    buffer = np.frombuffer(data, dtype=np.uint8)
    picture = decode_raw("rgb8", W, H, step, False, buffer)
    assert isinstance(picture, ColourImage) and np.shares_memory(picture.rgb, buffer)


@settings(max_examples=300, deadline=None)
@given(
    encoding=st.sampled_from(["rgb8", "bgra8", "mono16", "yuv422", "bayer_rggb8", "bayer_gbrg16", "16UC1", "32FC1"]),
    width=st.integers(-2, 9),
    height=st.integers(-2, 9),
    step=st.integers(-5, 60),
    big=st.booleans(),
    data=st.binary(max_size=300),
)
def test_whatever_comes_is_decoded_to_the_stated_size_or_refused(
    encoding: str, width: int, height: int, step: int, big: bool, data: bytes
) -> None:
    try:
        picture = decode_raw(encoding, width, height, step, big, data)
    except RejectedError as error:
        assert error.rejection.detail
        return
    pixels = picture.rgb if isinstance(picture, ColourImage) else picture.depth_m
    assert pixels.shape[:2] == (height, width)
