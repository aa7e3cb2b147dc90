"""Resizing, decoding of maps to boxes, suppression: exact where they can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.contracts import F32
from tether.vision.eyes import in_pixels_of
from tether.vision.geometry import HEIGHT, STRIDE, WIDTH, decode, iou, suppress
from tether.vision.resize import AreaResize

ROWS, COLUMNS = HEIGHT // STRIDE, WIDTH // STRIDE


def maps(*boxes: tuple[float, float, float, float, float]) -> tuple[F32, F32]:
    """Confidence and box maps that hold (cx, cy, width, height, confidence) exactly, told by every cell."""
    confidence = np.zeros((ROWS, COLUMNS), np.float32)
    box = np.zeros((4, ROWS, COLUMNS), np.float32)
    x, y = (np.arange(COLUMNS) + 0.5) * STRIDE, (np.arange(ROWS) + 0.5) * STRIDE
    for cx, cy, width, height, sure in boxes:
        d2 = (x - cx)[None, :] ** 2 + (y - cy)[:, None] ** 2
        near = sure * np.exp(-d2 / (2.0 * STRIDE**2))
        won = near > confidence
        confidence[won] = near[won]
        dx, dy = np.broadcast_to((cx - x)[None, :], won.shape), np.broadcast_to((cy - y)[:, None], won.shape)
        for channel, values in enumerate((dx, dy, np.full(won.shape, width), np.full(won.shape, height))):
            box[channel][won] = values[won]
    return confidence, box


def test_halving_a_picture_takes_means_of_four_pixels() -> None:
    rgb = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    expected = rgb.reshape(3, 2, 4, 2, 3).mean(axis=(1, 3))
    np.testing.assert_array_equal(AreaResize(6, 8, 3, 4)(rgb), np.floor(expected + 0.5))


def test_fractions_of_pixels_count_by_their_area() -> None:
    rgb = np.zeros((1, 5, 3), np.uint8)
    rgb[0, 2] = 100  # half of it in each of the two output pixels, which cover 2.5
    np.testing.assert_array_equal(AreaResize(1, 5, 1, 2)(rgb)[0, :, 0], [20, 20])


@settings(max_examples=30, deadline=None)
@given(st.integers(8, 60), st.integers(8, 60), st.integers(1, 8), st.integers(1, 8), st.integers(0, 255))
def test_even_picture_stays_even_whatever_the_sizes(h: int, w: int, oh: int, ow: int, level: int) -> None:
    assert (AreaResize(h, w, oh, ow)(np.full((h, w, 3), level, np.uint8)) == level).all()


def test_picture_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        AreaResize(6, 8, 3, 4)(np.zeros((8, 6, 3), np.uint8))


@settings(max_examples=50, deadline=None)
@given(st.floats(3, WIDTH - 3), st.floats(3, HEIGHT - 3), st.floats(2, 40), st.floats(2, 40), st.floats(0.5, 1.0))
def test_box_that_the_maps_hold_is_read_back(cx: float, cy: float, width: float, height: float, sure: float) -> None:
    found = decode(*maps((cx, cy, width, height, sure)), 0.3, 16)
    assert len(found) >= 1
    expected = [cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2]
    np.testing.assert_allclose(found[0, :4], expected, atol=1e-3)
    assert found[0, 4] <= sure + 1e-6


def test_two_objects_give_two_boxes_best_first_and_no_more_than_asked() -> None:
    both = maps((20.0, 20.0, 10.0, 10.0, 0.6), (90.0, 70.0, 12.0, 10.0, 0.9))
    found = suppress(decode(*both, 0.3, 16), 0.5)  # cells as near to a centre as each other tell the same box
    assert len(found) == 2 and found[0, 4] > found[1, 4] and abs(found[0, 0] - 84.0) < 1e-3
    assert len(decode(*both, 0.3, 1)) == 1


def test_nothing_above_the_threshold_is_no_box() -> None:
    assert decode(*maps((20.0, 20.0, 10.0, 10.0, 0.4)), 0.5, 16).shape == (0, 5)


def test_of_overlapping_boxes_the_better_one_stays() -> None:
    boxes = np.array([[0, 0, 10, 10, 0.9], [1, 1, 11, 11, 0.8], [20, 0, 30, 10, 0.7]], np.float32)
    np.testing.assert_array_equal(suppress(boxes, 0.5), boxes[[0, 2]])
    np.testing.assert_array_equal(suppress(boxes, 0.9), boxes)


def test_iou_is_intersection_over_union() -> None:
    a = np.array([0, 0, 10, 10], np.float32)
    assert float(iou(a, np.array([5, 0, 15, 10], np.float32))) == pytest.approx(1 / 3)
    assert float(iou(a, np.array([20, 0, 30, 10], np.float32))) == 0.0
    assert float(iou(np.zeros(4, np.float32), np.zeros(4, np.float32))) == 0.0


def test_boxes_come_in_the_pixels_of_the_original_picture() -> None:
    # The whole of the network's picture is the whole of the original: from the left edge of its first pixel to the
    # right edge of its last.
    whole = np.array([[0, 0, WIDTH, HEIGHT]], np.float32)
    np.testing.assert_allclose(in_pixels_of(whole, 320, 240), [[-0.5, -0.5, 319.5, 239.5]])
    beyond = np.array([[-5, -5, WIDTH + 9, HEIGHT + 9]], np.float32)
    np.testing.assert_allclose(in_pixels_of(beyond, 320, 240), [[-0.5, -0.5, 319.5, 239.5]])
