"""Pictures: where the camera model says the cube is, the picture shows it; same seed, same picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tether.assembly import ROBOT_FILE, profile, robot, task
from tether.contracts import EpisodeSpec, ImageSample, TickDelivery
from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.robot.description import expand
from tether.world.camera import camera_model
from tether.world.gl import choose_backend
from tether.world.mujoco_world import MujocoWorld, TruthChannel

try:
    BACKEND = choose_backend()
except InvalidInputError as error:
    pytest.skip(f"no headless OpenGL on this machine: {error}", allow_module_level=True)


def _world(profile_name: str, task_name: str = "pick") -> MujocoWorld:
    urdf = expand(resource_path("urdf", ROBOT_FILE))
    return MujocoWorld(urdf, task(task_name), profile(profile_name), truth=TruthChannel(), pictures=True)


def _pictures(world: MujocoWorld, seed: int, ticks: int) -> list[tuple[TickDelivery, ImageSample]]:
    deliveries = [world.reset(EpisodeSpec(world.task.name, world.profile.name, seed))]
    deliveries += [world.step(None) for _ in range(ticks)]
    return [(d, s) for d in deliveries for s in d.samples if isinstance(s, ImageSample)]


def test_cube_is_seen_where_the_camera_model_projects_it() -> None:
    world = _world("ideal")
    optical_p, optical_r = robot().transform(
        "base_link", "camera_optical_frame", dict.fromkeys(robot().joint_names, 0.0)
    )
    try:
        for seed in range(6):
            _, picture = _pictures(world, seed, 0)[0]
            p = optical_r.T @ (world.truth().p_base_cube - optical_p)
            u, v, _ = picture.camera.k @ p / p[2]
            rgb = picture.rgb.astype(int)
            rows, columns = np.nonzero((rgb[..., 0] > 80) & (rgb[..., 1] < 60) & (rgb[..., 2] < 60))
            assert len(rows) > 60
            assert abs(columns.mean() - u) < 3.0 and abs(rows.mean() - v) < 4.0
    finally:
        world.close()


def test_every_corner_of_the_workspace_is_in_the_picture() -> None:
    model = camera_model(profile("real").camera)
    optical_p, optical_r = robot().transform(
        "base_link", "camera_optical_frame", dict.fromkeys(robot().joint_names, 0.0)
    )
    for name in ("pick", "pick_moving"):
        spec = task(name)
        play = spec.carrier.radius_m if spec.carrier is not None else 0.0
        for x in (spec.cube.x_m[0] - play, spec.cube.x_m[1] + play):
            for y in (spec.cube.y_m[0] - play, spec.cube.y_m[1] + play):
                p = optical_r.T @ (np.array([x, y, spec.cube.side_m / 2]) - optical_p)
                u, v, _ = model.k @ p / p[2]
                assert 8 < u < model.width - 8 and 8 < v < model.height - 8, (name, x, y)


def test_pictures_come_at_30_hz_with_the_delay_of_the_profile() -> None:
    world = _world("real")
    try:
        pairs = _pictures(world, 1, 300)
    finally:
        world.close()
    stamps = [s.ref.stamp_ns for _, s in pairs]
    waits = np.array([d.stamp_ns - s.ref.stamp_ns for d, s in pairs]) * 1e-9
    assert len(stamps) == pytest.approx((3.0 - 0.12) * 30, abs=4)
    assert waits.min() >= 0.100 and waits.max() <= 0.150


def test_same_seed_same_pictures_and_noise_differs_between_them() -> None:
    first, second = _world("real"), _world("real")
    try:
        one, other = _pictures(first, 2, 40), _pictures(second, 2, 40)
        assert len(one) == len(other) > 5
        assert all((a.rgb == b.rgb).all() for (_, a), (_, b) in zip(one, other, strict=True))
        assert (one[0][1].rgb != one[1][1].rgb).any()
    finally:
        first.close()
        second.close()


def test_pictures_disturb_neither_physics_nor_other_sensors() -> None:
    urdf = expand(resource_path("urdf", ROBOT_FILE))
    plain = MujocoWorld(urdf, task("pick_moving"), profile("real"))
    seeing = _world("real", "pick_moving")
    try:
        _pictures(seeing, 4, 60)
        plain.reset(EpisodeSpec("pick_moving", "real", 4))
        for _ in range(60):
            plain.step(None)
        assert (plain.data.qpos == seeing.data.qpos).all()
    finally:
        seeing.close()


def test_any_size_can_be_rendered() -> None:
    p = profile("ideal")
    large = replace(p, camera=replace(p.camera, width=640, height=480))
    urdf = expand(resource_path("urdf", ROBOT_FILE))
    world = MujocoWorld(urdf, task("pick"), large, pictures=True)
    try:
        _, picture = _pictures(world, 0, 0)[0]
        assert picture.rgb.shape == (480, 640, 3)
        assert picture.rgb.std() > 10
    finally:
        world.close()
