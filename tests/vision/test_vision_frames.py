"""Rendered frames: labels that are true, the same again for the same seed, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra `sim`")

from tether.assembly import make_world, profile
from tether.errors import InvalidInputError
from tether.ingest.detector import ColourDetector
from tether.vision.frames import FramesConfig, make_frames
from tether.world.labelled import LabelledCamera, LookConfig

CONFIG = FramesConfig(frames=24, episodes=1, seed=3, shard=12, first_world_seed=13_000_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("frames")
    make_frames(made, CONFIG)
    return made


def test_labels_are_inside_the_picture_and_of_the_cubes_size(folder: Path) -> None:
    frames = make_frames(folder, CONFIG)
    assert frames.pictures.shape == (24, 96, 128, 3) and frames.pictures.dtype == np.uint8
    assert frames.shown.sum() >= 12
    boxes = frames.boxes[frames.shown]
    assert (boxes[:, :2] >= 0).all() and (boxes[:, 2] <= 128).all() and (boxes[:, 3] <= 96).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all() and (boxes[:, 2:] - boxes[:, :2] < 40).all()
    assert ((frames.visible >= 0) & (frames.visible <= 1)).all()


def test_interrupted_rendering_goes_on_to_the_same_frames(folder: Path, tmp_path: Path) -> None:
    whole = make_frames(folder, CONFIG)
    (tmp_path / "states.npy").write_bytes((folder / "states.npy").read_bytes())
    make_frames(tmp_path, replace(CONFIG, frames=12))
    again = make_frames(tmp_path, CONFIG)
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_folder_of_another_configuration_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="seed"):
        make_frames(folder, replace(CONFIG, seed=4))


def test_label_is_where_the_colour_detector_sees_a_cube_in_full_view(folder: Path) -> None:
    states = np.load(folder / "states.npy")
    world = make_world("pick_moving", "real", truth_age_ns=None, pictures=False)
    plain = LookConfig(plain_share=1.0, light_scale=(1.0, 1.0), pixel_noise=(0.0, 0.0))
    camera = LabelledCamera(world.model, world.index, profile("real").camera, plain)
    rng, detector, compared = np.random.default_rng(0), ColourDetector(), 0
    try:
        for state in states[:: max(len(states) // 12, 1)]:
            picture = camera.picture(state, rng)
            if picture.visible < 0.98:
                continue
            found = detector.detect(picture.rgb, None)
            np.testing.assert_allclose(found[0, :4], picture.box, atol=1.5)
            compared += 1
    finally:
        camera.close()
    assert compared >= 3


def test_share_in_sight_is_none_for_a_cube_behind_the_camera_and_all_for_one_in_the_open(folder: Path) -> None:
    world = make_world("pick", "ideal", truth_age_ns=None, pictures=False)
    camera = LabelledCamera(world.model, world.index, profile("real").camera, LookConfig(plain_share=1.0))
    state, rng = np.load(folder / "states.npy")[0].copy(), np.random.default_rng(0)
    at = world.index.cube_qpos
    try:
        state[at] = -1.0
        behind = camera.picture(state, rng)
        state[at : at + 2] = (0.24, 0.03)
        ahead = camera.picture(state, rng)
    finally:
        camera.close()
    assert behind.visible == 0.0
    assert ahead.visible > 0.95
    np.testing.assert_allclose(ahead.p_base_cube[:2], (0.24, 0.03), atol=0.05)
