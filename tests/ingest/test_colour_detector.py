"""The colour detector on drawn scenes whose boxes are known to a fraction of a pixel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tether.errors import InvalidInputError
from tether.ingest.detector import ColourConfig, ColourDetector

CUBE = np.array([0.80, 0.10, 0.10])
AMBER = np.array([0.85, 0.62, 0.12])
OVER = 16


def scene(
    box: tuple[float, float, float, float],
    *,
    light: float = 200.0,
    ground: float = 120.0,
    colour: NDArray[np.float64] = CUBE,
    noise: float = 0.0,
    size: tuple[int, int] = (240, 320),
) -> NDArray[np.uint8]:
    """A box x1, y1, x2, y2 (pixel edges at half numbers) on checked grey ground, exactly covered."""
    h, w = size

    def coverage(low: float, high: float, n: int) -> NDArray[np.float64]:
        edges = np.arange(n + 1) - 0.5
        return np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0.0, 1.0)

    share = np.outer(coverage(box[1], box[3], h), coverage(box[0], box[2], w))[:, :, None]
    checks = ground * (1.0 + 0.1 * ((np.indices((h, w)).sum(axis=0) // 16) % 2))[:, :, None]
    picture = share * colour * light + (1.0 - share) * checks
    if noise:
        picture = picture + np.random.default_rng(0).normal(0.0, noise, picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.37, 0.5, 0.81])
def test_edges_are_found_to_a_fifth_of_a_pixel(shift: float) -> None:
    box = (150.0 + shift, 99.5 + shift / 2, 172.7 + shift, 121.3)
    found = ColourDetector().detect(scene(box), None)
    assert found.shape == (1, 6) and found.dtype == np.float32
    np.testing.assert_allclose(found[0, :4], box, atol=0.2)


@pytest.mark.parametrize("light", [40.0, 90.0, 200.0, 318.0])
@pytest.mark.parametrize("ground", [25.0, 120.0, 220.0])
def test_light_may_vary_eightfold(light: float, ground: float) -> None:
    box = (60.3, 40.1, 84.2, 66.6)
    found = ColourDetector().detect(scene(box, light=light, ground=ground, noise=1.0), None)
    assert len(found) == 1
    np.testing.assert_allclose(found[0, :4], box, atol=0.6)


def test_pixel_noise_leaves_the_centre_within_a_quarter_of_a_pixel() -> None:
    box = (150.0, 99.5, 173.0, 122.5)
    found = ColourDetector().detect(scene(box, noise=4.0), None)
    assert len(found) == 1
    assert np.abs(found[0, [0, 1]] + found[0, [2, 3]] - (323.0, 222.0)).max() / 2 < 0.25


def test_faces_of_different_brightness_are_one_object() -> None:
    top = scene((100.0, 80.0, 124.0, 92.0), light=240.0).astype(int)
    side = scene((100.0, 92.0, 124.0, 106.0), light=90.0).astype(int)
    ground = scene((0.0, 0.0, 0.0, 0.0)).astype(int)
    found = ColourDetector().detect(np.clip(top + side - ground, 0, 255).astype(np.uint8), None)
    assert len(found) == 1
    np.testing.assert_allclose(found[0, :4], (100.0, 80.0, 124.0, 106.0), atol=0.6)


@pytest.mark.parametrize(
    "other", [AMBER, np.array([0.1, 0.5, 0.1]), np.array([0.72, 0.74, 0.76]), np.array([0.16, 0.17, 0.19])]
)
def test_other_colours_of_the_robot_are_not_the_object(other: NDArray[np.float64]) -> None:
    assert len(ColourDetector().detect(scene((50.0, 50.0, 150.0, 150.0), colour=other, noise=3.0), None)) == 0


def test_nothing_in_view_gives_no_rows() -> None:
    found = ColourDetector().detect(scene((0.0, 0.0, 0.0, 0.0), noise=4.0), None)
    assert found.shape == (0, 6) and found.dtype == np.float32


def test_black_picture_gives_no_rows() -> None:
    assert len(ColourDetector().detect(np.zeros((240, 320, 3), dtype=np.uint8), None)) == 0


def test_larger_region_comes_first() -> None:
    picture = scene((10.0, 10.0, 20.0, 20.0))
    picture[100:140, 200:240] = (160, 20, 20)
    found = ColourDetector().detect(picture, None)
    assert found[:, 0].tolist() == pytest.approx([199.5, 10.0], abs=0.3)


def test_region_below_the_least_area_is_left_out() -> None:
    assert len(ColourDetector().detect(scene((100.5, 100.5, 102.5, 102.5)), None)) == 0


def test_object_cut_by_the_border_ends_at_the_border() -> None:
    found = ColourDetector().detect(scene((-10.0, -5.0, 12.0, 9.0)), None)
    np.testing.assert_allclose(found[0, :4], (-0.5, -0.5, 12.0, 9.0), atol=0.2)


def test_solid_object_is_more_certain_than_a_speckled_line() -> None:
    line = scene((0.0, 0.0, 0.0, 0.0))
    line[np.arange(60, 100), np.arange(60, 100)] = (160, 20, 20)
    line[np.arange(60, 100), np.arange(61, 101)] = (160, 20, 20)
    solid = ColourDetector().detect(scene((100.0, 100.0, 124.0, 124.0)), None)
    speckled = ColourDetector().detect(line, None)
    assert solid[0, 4] > 0.8 and speckled[0, 4] < 0.2


def test_read_only_picture_is_not_written_to() -> None:
    picture = scene((100.0, 100.0, 124.0, 124.0))
    picture.flags.writeable = False
    assert len(ColourDetector().detect(picture, None)) == 1


def test_another_colour_is_a_matter_of_configuration() -> None:
    green = np.array([0.1, 0.7, 0.2])
    config = ColourConfig(red=0.1, green=0.7, blue=0.2, class_id=3)
    found = ColourDetector(config).detect(scene((100.0, 100.0, 124.0, 124.0), colour=green), None)
    assert found[0, 5] == 3.0
    assert len(ColourDetector(config).detect(scene((100.0, 100.0, 124.0, 124.0)), None)) == 0


def test_grey_object_is_refused_as_undetectable() -> None:
    with pytest.raises(InvalidInputError, match="grey"):
        ColourConfig(red=0.5, green=0.52, blue=0.5)
