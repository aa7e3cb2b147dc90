"""Camera ingest: stamps, decoding, intrinsics and detector together; refused pictures keep their record."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tether.contracts import F32, U8, CameraModel, ImageSample, SampleRef, Stream
from tether.ingest.camera import CameraConfig, CameraIngest, CameraResult, CompressedImage, RawImage
from tether.ingest.encoder import DetectorEncoder
from tether.ingest.rejection import Reason

DATA = Path(__file__).parents[1] / "data" / "ingest"
MS = 1_000_000
LIVING = np.random.default_rng(1)
RGB = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)


class Spy:
    """A detector that remembers what it was shown and finds one box."""

    def __init__(self) -> None:
        self.seen: list[U8] = []

    def detect(self, rgb: U8, camera: CameraModel | None) -> F32:
        self.seen.append(rgb)
        return np.array([[0, 0, 1, 1, 0.5, 0]], dtype=np.float32)


def camera(width: int = 6, height: int = 4) -> CameraModel:
    return CameraModel(width, height, np.eye(3))


def noisy() -> bytes:
    """RGB as a real camera sees it again: never the same bit for bit."""
    return (RGB ^ LIVING.integers(0, 2, RGB.shape, dtype=np.uint8)).tobytes()


def raw(i: int = 1, **fields: object) -> RawImage:
    base: dict[str, object] = {
        "stamp_ns": i * 33 * MS,
        "encoding": "rgb8",
        "width": 6,
        "height": 4,
        "step": 18,
        "is_bigendian": False,
        "data": noisy(),
    }
    return RawImage(**{**base, **fields})  # type: ignore[arg-type]


def reason(result: CameraResult) -> Reason | None:
    return None if result.rejection is None else result.rejection.reason


def test_good_picture_gives_detections_with_its_stamp_and_sequence() -> None:
    spy = Spy()
    ingest = CameraIngest(DetectorEncoder(spy))
    ingest.ingest(raw(1), camera(), 40 * MS)
    result = ingest.ingest(raw(2, data=RGB.tobytes()), camera(), 70 * MS)
    assert result.feature.ref == SampleRef(Stream.CAMERA, 66 * MS, 1)
    assert result.feature.rejected is None and result.feature.detections.shape == (1, 6)
    assert np.array_equal(spy.seen[-1], RGB)


def test_refused_picture_keeps_its_record_with_the_reason() -> None:
    spy = Spy()
    result = CameraIngest(DetectorEncoder(spy)).ingest(raw(data=bytes(30)), camera(), 40 * MS)
    assert result.feature.ref.stamp_ns == 33 * MS
    assert result.feature.rejected is not None and result.feature.rejected.startswith("short_data: 30 bytes")
    assert result.feature.detections.shape == (0, 6) and not spy.seen


def test_picture_with_a_bad_stamp_is_not_even_decoded() -> None:
    result = CameraIngest(DetectorEncoder(Spy())).ingest(raw(data=b"", encoding="nonsense"), camera(), 5_000 * MS)
    assert reason(result) is Reason.LATE_STAMP


def test_depth_picture_on_the_colour_topic_is_refused_by_name() -> None:
    result = CameraIngest(DetectorEncoder(Spy())).ingest(
        raw(encoding="16UC1", step=12, data=bytes(48)), camera(), 40 * MS
    )
    assert reason(result) is Reason.DEPTH_NOT_COLOUR


def test_intrinsics_of_another_resolution_are_refused() -> None:
    assert (
        reason(CameraIngest(DetectorEncoder(Spy())).ingest(raw(), camera(640, 480), 40 * MS)) is Reason.CAMERA_MISMATCH
    )


def test_picture_before_the_first_camera_info_is_taken_without_a_model() -> None:
    result = CameraIngest(DetectorEncoder(Spy())).ingest(raw(), None, 40 * MS)
    assert result.rejection is None and result.feature.camera is None


def test_picture_of_a_world_goes_the_same_way() -> None:
    sample = ImageSample(SampleRef(Stream.CAMERA, 33 * MS, 9), RGB, camera())
    result = CameraIngest(DetectorEncoder(Spy())).ingest(sample, sample.camera, 153 * MS, sample.ref.sequence)
    assert result.feature.ref == sample.ref and result.rgb is RGB


def test_camera_with_jitter_may_deliver_out_of_order() -> None:
    ingest = CameraIngest(DetectorEncoder(Spy()))
    results = [ingest.ingest(raw(i), camera(), 200 * MS) for i in (1, 3, 2, 4)]
    assert [r.reordered for r in results] == [False, False, True, False]
    assert all(r.rejection is None for r in results)


def test_looped_recording_clears_once_and_goes_on() -> None:
    ingest = CameraIngest(DetectorEncoder(Spy()))
    first = [ingest.ingest(raw(i), camera(), i * 33 * MS + MS) for i in range(1, 30)]
    second = [ingest.ingest(raw(i), camera(), i * 33 * MS + MS) for i in range(1, 30)]
    assert not any(r.jump for r in first)
    assert [r.jump is not None for r in second] == [True] + [False] * 28
    assert all(r.rejection is None for r in second)


@pytest.mark.parametrize("kind", ["raw", "compressed", "world"])
def test_the_same_picture_under_fresh_stamps_is_refused_until_another_comes(kind: str) -> None:
    def picture(i: int, rgb: U8) -> RawImage | CompressedImage | ImageSample:
        if kind == "raw":
            return raw(i, data=rgb.tobytes())
        if kind == "world":
            return ImageSample(SampleRef(Stream.CAMERA, i * 33 * MS, i), rgb, camera())
        file = io.BytesIO()
        Image.fromarray(rgb).save(file, "png")
        return CompressedImage(i * 33 * MS, "png", file.getvalue())

    ingest, other = CameraIngest(DetectorEncoder(Spy())), np.ascontiguousarray(RGB[::-1])
    shown = [RGB, other, other, other, RGB, other]
    results = [ingest.ingest(picture(i, rgb), camera(), i * 33 * MS + MS) for i, rgb in enumerate(shown, 1)]
    assert [reason(r) for r in results] == [None, None, Reason.CONSTANT, Reason.CONSTANT, None, None]
    assert results[3].rejection is not None and "3 pictures" in results[3].rejection.detail
    assert ingest.rejected[Reason.CONSTANT] == 2
    ingest.reset()
    assert ingest.ingest(picture(7, other), camera(), 7 * 33 * MS + MS).rejection is None, "an episode starts anew"


def test_how_many_pictures_may_be_the_same_is_a_setting_and_a_world_without_noise_is_named() -> None:
    for config, refused in ((CameraConfig(constant_after=5), 6), (CameraConfig(noiseless_world=True), 0)):
        ingest = CameraIngest(DetectorEncoder(Spy()), config)
        results = [ingest.ingest(raw(i, data=RGB.tobytes()), camera(), i * 33 * MS + MS) for i in range(1, 11)]
        assert sum(reason(r) is Reason.CONSTANT for r in results) == refused


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(2, 6))
def test_pictures_are_refused_where_so_many_in_a_row_are_equal_and_nowhere_else(shown: list[int], after: int) -> None:
    pictures = [np.full((4, 6, 3), value, dtype=np.uint8).tobytes() for value in range(4)]
    ingest = CameraIngest(DetectorEncoder(Spy()), CameraConfig(constant_after=after))
    for i, value in enumerate(shown, 1):
        result = ingest.ingest(raw(i, data=pictures[value]), camera(), i * 33 * MS + MS)
        run = shown[max(i - after, 0) : i]
        assert (reason(result) is Reason.CONSTANT) == (len(run) == after and set(run) == {value})


def test_recorded_raspberry_pi_picture_is_refused_for_its_stamp_and_decoded_under_a_right_one() -> None:
    record_ns, stamp_ns = 1491682361550891160, 1491682360314066469
    data = (DATA / "aruco_raspicam.jpg").read_bytes()
    late = CameraIngest(DetectorEncoder(Spy())).ingest(CompressedImage(stamp_ns, "jpg", data), None, record_ns)
    assert reason(late) is Reason.LATE_STAMP and late.rejection is not None and "1236.8 ms" in late.rejection.detail
    good = CameraIngest(DetectorEncoder(Spy())).ingest(
        CompressedImage(record_ns - 50 * MS, "jpg", data), None, record_ns
    )
    assert good.rgb is not None and good.rgb.shape == (960, 1280, 3)


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_recorded_pictures_with_stamp_zero_are_refused_for_it(kind: str) -> None:
    recorded = np.load(DATA / "rosbag2js_bgr8.npz")
    message: RawImage | CompressedImage
    if kind == "raw":
        message = RawImage(0, "bgr8", 640, 480, int(recorded["step"]), False, recorded["data"])
    else:
        message = CompressedImage(0, "bgr8; jpeg compressed bgr8", (DATA / "rosbag2js.jpg").read_bytes())
    assert reason(CameraIngest(DetectorEncoder(Spy())).ingest(message, None, 1553145698459670219)) is Reason.ZERO_STAMP


def test_recorded_bgr8_picture_comes_out_with_red_and_blue_in_place() -> None:
    recorded = np.load(DATA / "rosbag2js_bgr8.npz")
    message = RawImage(33 * MS, "bgr8", 640, 480, int(recorded["step"]), False, recorded["data"])
    result = CameraIngest(DetectorEncoder(Spy())).ingest(message, None, 40 * MS)
    assert result.rgb is not None
    assert np.array_equal(result.rgb, recorded["data"].reshape(480, 640, 3)[:, :, ::-1])
