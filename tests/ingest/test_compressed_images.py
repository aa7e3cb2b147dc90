"""Compressed pictures are known by their first bytes; what is cut, corrupt or a bomb is refused by name."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tether.ingest.compressed import decode_compressed, sniff
from tether.ingest.encodings import ColourImage, DepthImage
from tether.ingest.rejection import Reason, RejectedError

DATA = Path(__file__).parents[1] / "data" / "ingest"
RGB = np.zeros((32, 48, 3), dtype=np.uint8)
RGB[:, :24] = (200, 30, 30)
RGB[:, 24:] = (20, 40, 220)


def encoded(kind: str, pixels: np.ndarray = RGB, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format=kind, **options)
    return out.getvalue()


def refused(format_field: str, data: bytes) -> tuple[Reason, str]:
    with pytest.raises(RejectedError) as caught:
        decode_compressed(format_field, data)
    return caught.value.rejection.reason, caught.value.rejection.detail


def png(width: int, height: int, body: bytes, depth: int = 8, kind: int = 2) -> bytes:
    """A PNG written by hand, so that its header can lie."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "WEBP"])
@pytest.mark.parametrize("said", ["", "jpeg", "jpg", "png", "bgr8; jpeg compressed bgr8", "rgb8; png compressed ", "?"])
def test_format_field_is_never_believed(kind: str, said: str) -> None:
    picture = decode_compressed(said, encoded(kind))
    assert isinstance(picture, ColourImage)
    assert np.abs(picture.rgb[:, 2:20].astype(int) - RGB[:, 2:20]).max() < 12
    assert np.abs(picture.rgb[:, 28:46].astype(int) - RGB[:, 28:46]).max() < 12


@pytest.mark.parametrize(
    ("pixels", "kind"),
    [(RGB[:, :, 0], "PNG"), (RGB[:, :, 0], "JPEG"), (np.dstack((RGB, RGB[:, :, 0])), "PNG")],
)
def test_grey_and_transparent_pictures_come_out_as_rgb(pixels: np.ndarray, kind: str) -> None:
    picture = decode_compressed("", encoded(kind, pixels))
    assert isinstance(picture, ColourImage) and picture.rgb.shape == RGB.shape


def test_16_bit_png_is_depth_where_the_format_names_16uc1_and_grey_otherwise() -> None:
    mm = np.array([[0, 1000], [256 * 77, 65535]], dtype=np.uint16)
    data = encoded("PNG", mm)
    depth = decode_compressed("16UC1; png compressed ", data)
    assert isinstance(depth, DepthImage)
    np.testing.assert_allclose(depth.depth_m, [[np.nan, 1.0], [19.712, 65.535]], rtol=1e-6)
    grey = decode_compressed("mono16; png compressed ", data)
    assert isinstance(grey, ColourImage) and grey.rgb[:, :, 0].tolist() == [[0, 3], [77, 255]]


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "WEBP"])
def test_truncated_picture_is_refused_as_truncated_or_corrupt(kind: str, keep: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = encoded(kind, noise)
    reason, _ = refused("jpeg", whole[: int(len(whole) * keep)])
    assert reason in (Reason.TRUNCATED, Reason.CORRUPT)


def test_truncated_jpeg_is_named_truncated() -> None:
    whole = (DATA / "aruco_raspicam.jpg").read_bytes()
    assert refused("jpg", whole[:300_000])[0] is Reason.TRUNCATED
    assert refused("jpg", whole[:-2])[0] is Reason.TRUNCATED


def test_jpeg_followed_by_padding_of_its_buffer_is_taken() -> None:
    assert isinstance(decode_compressed("jpeg", encoded("JPEG") + bytes(1000)), ColourImage)


def test_empty_data_is_refused_as_empty() -> None:
    assert refused("jpeg", b"")[0] is Reason.EMPTY_IMAGE


def test_ten_bytes_of_a_jpeg_header_are_refused_as_truncated() -> None:
    assert refused("jpeg", bytes([255, 216, 255, 224, 0, 16, 74, 70, 73, 70]))[0] is Reason.TRUNCATED


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x01\x67\x42", b"GIF89a" + bytes(40), b"<html></html>"])
def test_other_formats_are_refused_with_their_first_bytes(data: bytes) -> None:
    reason, detail = refused("jpeg", data)
    assert reason is Reason.UNKNOWN_FORMAT and data[:4].hex(" ") in detail and "'jpeg'" in detail


def test_compressed_depth_is_refused_by_name() -> None:
    inner = encoded("PNG", np.full((4, 4), 1000, dtype=np.uint16))
    for said in ("16UC1; compressedDepth png", "16UC1; compressedDepth", ""):
        reason, detail = refused(said, struct.pack("<iff", 0, 100.0, 10.0) + inner)
        assert reason is Reason.UNSUPPORTED_FORMAT and "compressedDepth" in detail


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("width", "height"), [(60_000, 60_000), (30_000, 2_000), (9_000, 9_000), (12_000, 8_000)])
def test_decompression_bomb_is_refused_from_its_header(width: int, height: int) -> None:
    assert refused("png", png(width, height, bytes(1000)))[0] is Reason.TOO_LARGE


def test_png_of_no_size_is_refused() -> None:
    assert refused("png", png(0, 0, b""))[0] in (Reason.EMPTY_IMAGE, Reason.CORRUPT, Reason.TRUNCATED)


def test_png_with_a_broken_checksum_is_refused_as_corrupt() -> None:
    data = bytearray(encoded("PNG"))
    data[len(data) // 2] ^= 0xFF
    assert refused("png", bytes(data))[0] in (Reason.CORRUPT, Reason.TRUNCATED)


def test_recorded_jpeg_of_a_raspberry_pi_camera_is_decoded() -> None:
    picture = decode_compressed("jpg", (DATA / "aruco_raspicam.jpg").read_bytes())
    assert isinstance(picture, ColourImage) and picture.rgb.shape == (960, 1280, 3)


def test_recorded_jpeg_with_the_format_of_image_transport_is_decoded() -> None:
    picture = decode_compressed("bgr8; jpeg compressed bgr8", (DATA / "rosbag2js.jpg").read_bytes())
    assert isinstance(picture, ColourImage) and picture.rgb.shape == (480, 640, 3)


def test_signatures_are_told_apart() -> None:
    assert [sniff(encoded(kind)) for kind in ("JPEG", "PNG", "BMP", "WEBP")] == ["JPEG", "PNG", "BMP", "WEBP"]
    assert sniff(b"") is None and sniff(b"RIFF1234WAVE") is None


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["JPEG", "PNG", "BMP", "WEBP"]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255))),
)
def test_damaged_picture_is_decoded_or_refused_but_never_raises_anything_else(
    kind: str, damage: list[tuple[int, int]]
) -> None:
    data = bytearray(encoded(kind))
    for at, value in damage:
        data[at % len(data)] = value
    try:
        decode_compressed("jpeg", bytes(data))
    except RejectedError as error:
        assert error.rejection.detail
