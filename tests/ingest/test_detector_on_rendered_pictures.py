"""The colour detector on the world's own pictures against the projected corners of the true cube."""

from __future__ import annotations

import numpy as np
import pytest

from tether.contracts import EpisodeSpec, ImageSample
from tether.errors import InvalidInputError
from tether.ingest.detector import ColourDetector
from tether.resources import resource_path
from tether.robot.description import expand
from tether.world.profile import load_profile
from tether.world.task import load_task

pytest.importorskip("mujoco")
EPISODES = 12


def test_boxes_of_rendered_cubes_are_within_a_pixel_and_their_centres_unbiased() -> None:
    from tether.world.mujoco_world import MujocoWorld

    profile = load_profile(resource_path("config", "profiles/real.yaml"))
    task = load_task(resource_path("config", "tasks/pick.yaml"))
    urdf = expand(resource_path("urdf", "tether_rover.urdf.xacro"))
    try:
        world = MujocoWorld(urdf, task, profile, pictures=True)
    except InvalidInputError as error:
        pytest.skip(f"no off-screen GL on this machine: {error}")
    errors = []
    try:
        for seed in range(EPISODES):
            picture = first_picture(world, EpisodeSpec("pick", "real", seed))
            found = ColourDetector().detect(picture.rgb, picture.camera)
            assert len(found) == 1 and found[0, 4] > 0.8
            errors.append(found[0, :4] - true_box(world, picture))
    finally:
        world.close()
    edges = np.array(errors)
    assert np.abs(edges).max() < 1.0
    assert np.abs((edges[:, :2] + edges[:, 2:]).mean(axis=0) / 2).max() < 0.25


def first_picture(world: object, spec: EpisodeSpec) -> ImageSample:
    delivery = world.reset(spec)  # type: ignore[attr-defined]
    for _ in range(100):
        pictures = [s for s in delivery.samples if isinstance(s, ImageSample)]
        if pictures:
            return pictures[0]
        delivery = world.step(None)  # type: ignore[attr-defined]
    raise AssertionError("no picture within a second")


def true_box(world: object, picture: ImageSample) -> np.ndarray:
    """x1, y1, x2, y2 of the cube (which lies still) by projecting its corners with the true camera pose."""
    data, model, index = world.data, world.model, world.index  # type: ignore[attr-defined]
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    cube = index.cube_geom
    corners = data.geom_xpos[cube] + (signs * model.geom_size[cube]) @ data.geom_xmat[cube].reshape(3, 3).T
    seen = (corners - data.cam_xpos[index.camera]) @ data.cam_xmat[index.camera].reshape(3, 3)
    k = picture.camera.k
    u = k[0, 0] * seen[:, 0] / -seen[:, 2] + k[0, 2]
    v = k[1, 1] * seen[:, 1] / seen[:, 2] + k[1, 2]
    return np.array([u.min(), v.min(), u.max(), v.max()])
