"""Average precision and its companions on cases small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tether.contracts import F32
from tether.vision.frames import Frames
from tether.vision.metrics import average_precision, score

BOX = (10.0, 10.0, 20.0, 20.0)


def frames(visible: list[float]) -> Frames:
    n = len(visible)
    return Frames(
        np.zeros((n, 96, 128, 3), np.uint8),
        np.tile(np.array(BOX, np.float32), (n, 1)),
        np.array(visible, np.float32),
        np.zeros((n, 3), np.float32),
        np.zeros((n, 6), np.float32),
    )


def found(*rows: tuple[float, float, float]) -> F32:
    """Boxes of BOX's size moved by (dx, dy), with a confidence."""
    return np.array(
        [[BOX[0] + dx, BOX[1] + dy, BOX[2] + dx, BOX[3] + dy, c] for dx, dy, c in rows], np.float32
    ).reshape(-1, 5)


def ap(visible: list[float], *boxes: F32) -> float:
    data = frames(visible)
    return average_precision(data, boxes, range(len(data)), 0.5)


def test_every_box_found_and_nothing_else_is_one() -> None:
    assert ap([1.0, 1.0, 0.0], found((0, 0, 0.9)), found((1, 0, 0.8)), found()) == pytest.approx(1.0)


def test_half_of_the_boxes_found_is_about_a_half() -> None:
    assert ap([1.0, 1.0], found((0, 0, 0.9)), found()) == pytest.approx(51 / 101)


def test_false_find_costs_by_its_confidence() -> None:
    sure_of_the_wrong = ap([1.0, 0.0], found((0, 0, 0.5)), found((0, 0, 0.9)))
    sure_of_the_right = ap([1.0, 0.0], found((0, 0, 0.9)), found((0, 0, 0.5)))
    assert (sure_of_the_wrong, sure_of_the_right) == (pytest.approx(0.5), pytest.approx(1.0))


def test_second_find_of_the_same_box_is_false() -> None:
    assert ap([1.0, 1.0], found((0, 0, 0.9), (1, 0, 0.8)), found((0, 0, 0.7))) == pytest.approx(
        (51 * 1.0 + 50 * 2 / 3) / 101
    )


def test_box_beside_the_object_is_no_find() -> None:
    assert ap([1.0], found((6, 0, 0.9))) == 0.0


def test_nothing_found_is_zero() -> None:
    assert ap([1.0, 1.0], found(), found()) == 0.0


def test_scores_tell_errors_and_occlusion_and_leave_out_what_is_half_hidden() -> None:
    data = frames([1.0, 0.5, 0.5, 0.15, 0.0])
    boxes = [found((3, 4, 0.9)), found((1, 0, 0.9)), found(), found((0, 0, 0.9)), found((0, 0, 0.9))]
    scores = score(data, boxes, 0.3)
    assert scores.frames == 4 and scores.boxes == 3
    # The first box is moved by (3, 4): IoU 42 / 158, no find.
    assert scores.recall == pytest.approx(1 / 3) and scores.recall_occluded == pytest.approx(0.5)
    assert scores.centre_error_px_p50 == pytest.approx(1.0)
    assert scores.false_rate == pytest.approx(2 / 4)
