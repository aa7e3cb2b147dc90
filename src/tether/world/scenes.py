"""Scenes of cubes on the ground, each seen on more than one visit: what recognising a place is measured on.

A visit is not the scene: the base stands a little elsewhere, the camera sits a little differently in its mount, light,
gain and noise are others. The arrangement of the cubes is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from tether.config import bounded
from tether.contracts import F64, U8
from tether.robot.roles import COMMAND_JOINTS
from tether.world.camera import Renderer
from tether.world.model import Block, SceneSpec, compile_model
from tether.world.profile import CameraProfile, VariationProfile
from tether.world.task import Task
from tether.world.variation import Variation

_AWAY_M = 2.5
"""Behind the camera: where a cube stands that a scene does not have."""
_SETTLE = (0.19, 0.31), (-0.11, 0.11)


@dataclass(frozen=True)
class Cube:
    """A cube of a scene: its colour's name and where it lies in the base frame, m, rad."""

    colour: str
    x_m: float
    y_m: float
    yaw_rad: float


@dataclass(frozen=True)
class VisitConfig:
    """How far two visits of one scene differ."""

    base_m: float = bounded(0.0, 0.1, default=0.008, unit="m", doc="the base stands up to so far from where it stood")
    base_rad: float = bounded(0.0, 0.5, default=0.03, unit="rad")
    light_scale: tuple[float, float] = bounded(0.1, 3.0, default=(0.6, 1.5))
    gain: tuple[float, float] = bounded(0.2, 3.0, default=(0.85, 1.2))
    camera_position_m: float = bounded(0.0, 0.05, default=0.003, unit="m")
    camera_rotation_rad: float = bounded(0.0, 0.2, default=0.0075, unit="rad")


@dataclass(frozen=True, eq=False)
class Visit:
    """rgb: (H, W, 3) uint8. places: (n, 2) m, where the scene's cubes lie as seen from the base on this visit."""

    rgb: U8
    places: F64


PALETTE: Mapping[str, tuple[float, float, float]] = {
    "red": (0.80, 0.10, 0.10),
    "green": (0.10, 0.55, 0.15),
    "blue": (0.10, 0.20, 0.75),
    "yellow": (0.80, 0.65, 0.10),
}


class SceneCamera:
    """Draws visits of scenes with the robot's own camera. Use as a context manager: it owns the renderer."""

    def __init__(self, urdf: str, task: Task, profile: CameraProfile, cubes_max: int, config: VisitConfig) -> None:
        """task: gives the cubes' size and the arm's posture. cubes_max: beside the red one."""
        blocks = tuple(Block(task.cube.side_m, task.cube.mass_kg, (0.5, 0.5, 0.5)) for _ in range(cubes_max))
        spec = SceneSpec(
            cube_side_m=task.cube.side_m,
            cube_mass_kg=task.cube.mass_kg,
            camera_fovy_rad=profile.fovy_rad,
            width=profile.width,
            height=profile.height,
            distractors=blocks,
        )
        self._model, self._index = compile_model(urdf, spec)
        self._data = mujoco.MjData(self._model)
        self._half = task.cube.side_m / 2.0
        self._start = np.array([task.start[name] for name in COMMAND_JOINTS])
        self._noise, self._config = profile.pixel_noise, config
        self._geoms = [self._index.cube_geom, *(self._model.geom(f"distractor_{i}").id for i in range(cubes_max))]
        self._places = [self._index.cube_qpos, *self._index.distractor_qpos]
        self._variation = Variation(self._model, self._index)
        self._renderer = Renderer(self._model, profile.width, profile.height)

    def __enter__(self) -> SceneCamera:
        return self

    def __exit__(self, *exc: object) -> None:
        self._renderer.close()

    def visit(self, scene: tuple[Cube, ...], rng: np.random.Generator) -> Visit:
        """A picture of the scene. Raises ValueError where it has more cubes than this draws."""
        if not 1 <= len(scene) <= len(self._places):
            raise ValueError(f"a scene of {len(scene)} cubes; this draws 1 to {len(self._places)}")
        data, config, index = self._data, self._config, self._index
        look = VariationProfile(
            (1.0, 1.0), (1.0, 1.0), config.light_scale, (1.0, 1.0), config.camera_position_m, config.camera_rotation_rad
        )
        self._variation.draw(look, rng)
        mujoco.mj_resetData(self._model, data)
        data.qpos[index.joint_qpos] = self._start
        data.qpos[index.joint_qpos[-1] + 1] = self._start[-1]  # the mimicking finger
        base = index.base_qpos.start
        data.qpos[base : base + 2] = config.base_m * rng.uniform(-1.0, 1.0, 2)
        data.qpos[base + 3] = config.base_rad * rng.uniform(-1.0, 1.0)
        for number, (geom, at) in enumerate(zip(self._geoms, self._places, strict=True)):
            self._put(geom, at, scene[number] if number < len(scene) else None)
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_camlight(self._model, data)
        rgb = self._renderer.draw(data, index.camera).astype(np.float32) * rng.uniform(*config.gain)
        seen: U8 = np.clip(np.rint(rgb + self._noise * rng.standard_normal(rgb.shape)), 0, 255).astype(np.uint8)
        base_turn = data.xmat[index.base_body].reshape(3, 3)
        bodies = [self._model.geom_bodyid[geom] for geom in self._geoms[: len(scene)]]
        return Visit(seen, ((data.xpos[bodies] - data.xpos[index.base_body]) @ base_turn)[:, :2])

    def _put(self, geom: int, at: int, cube: Cube | None) -> None:
        pose: F64 = np.array([-_AWAY_M, 0.0, self._half, 1.0, 0.0, 0.0, 0.0])
        if cube is not None:
            self._model.geom_rgba[geom, :3] = PALETTE[cube.colour]
            turn = cube.yaw_rad / 2.0
            pose[:] = (cube.x_m, cube.y_m, self._half, np.cos(turn), 0.0, 0.0, np.sin(turn))
        self._data.qpos[at : at + 7] = pose


def draw_scene(colours: tuple[str, ...], rng: np.random.Generator, apart_m: float = 0.045) -> tuple[Cube, ...]:
    """Cubes of these colours at places drawn until they are `apart_m` from each other."""
    places: list[F64] = []
    while len(places) < len(colours):
        place = np.array([rng.uniform(*_SETTLE[0]), rng.uniform(*_SETTLE[1])])
        if all(np.hypot(*(place - other)) >= apart_m for other in places):
            places.append(place)
    turns = rng.uniform(-np.pi / 4.0, np.pi / 4.0, len(colours))
    return tuple(
        Cube(colour, float(place[0]), float(place[1]), float(turn))
        for colour, place, turn in zip(colours, places, turns, strict=True)
    )
