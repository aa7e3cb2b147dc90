"""Labelled pictures: any state of the world as its camera sees it, under any look, with where the cube is in it.

Training data for eyes, made without labelling by hand (domain randomisation, Tobin et al. 2017, arXiv 1703.06907).
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass

import mujoco
import numpy as np

from tether.config import bounded
from tether.contracts import F64, U8
from tether.world.camera import Renderer, camera_model
from tether.world.model import ModelIndex
from tether.world.outline import cube_outline
from tether.world.profile import CameraProfile, VariationProfile
from tether.world.variation import Variation

_NOISE_PICTURES = 8
_RED_HUE = 0.08
"""Nothing but the cube is coloured within this of red, on the circle of hues from 0 to 1."""
_SHAPES = (
    mujoco.mjtGeom.mjGEOM_BOX,
    mujoco.mjtGeom.mjGEOM_SPHERE,
    mujoco.mjtGeom.mjGEOM_CYLINDER,
    mujoco.mjtGeom.mjGEOM_CAPSULE,
    mujoco.mjtGeom.mjGEOM_ELLIPSOID,
)


@dataclass(frozen=True)
class LookConfig:
    """How far the look of a picture is varied. `plain_share` of them keep the world's own colours, as rollouts do."""

    plain_share: float = bounded(0.0, 1.0, default=0.5)
    light_scale: tuple[float, float] = bounded(0.1, 3.0, default=(0.55, 1.5))
    camera_position_m: float = bounded(0.0, 0.05, default=0.003, unit="m")
    camera_rotation_rad: float = bounded(0.0, 0.2, default=0.0075, unit="rad")
    distractors_max: int = bounded(0, 20, default=4)
    pixel_noise: tuple[float, float] = bounded(0.0, 32.0, default=(2.0, 6.0), unit="counts")
    gain: tuple[float, float] = bounded(0.2, 3.0, default=(0.8, 1.25))
    blur_share: float = bounded(0.0, 1.0, default=0.15, doc="of the pictures whose look is varied")


@dataclass(frozen=True, eq=False)
class LabelledPicture:
    """One picture and the truth about it.

    rgb: (height, width, 3) uint8. box: (4,) x1, y1, x2, y2 of the whole cube, hidden parts too, cut at the picture's
    border; pixel (u, v) covers [u - 0.5, u + 0.5] x [v - 0.5, v + 0.5]; zeros where the cube is not before the camera.
    visible: share of the cube's outline that can be seen. p_base_cube: (3,). joint_position: of the commanded joints,
    in their order.
    """

    rgb: U8
    box: F64
    visible: float
    p_base_cube: F64
    joint_position: F64


class LabelledCamera:
    """Draws labelled pictures of one model, whose look it changes: give it a model of its own."""

    def __init__(
        self, model: mujoco.MjModel, index: ModelIndex, profile: CameraProfile, look: LookConfig | None = None
    ) -> None:
        self.look = look or LookConfig()
        self._model, self._index = model, index
        self._data = mujoco.MjData(model)
        self._camera = camera_model(profile)
        self._renderer = _Painter(model, profile.width, profile.height)
        self._variation = Variation(model, index)
        self._spread = VariationProfile(
            (1.0, 1.0),
            (1.0, 1.0),
            self.look.light_scale,
            (1.0, 1.0),
            self.look.camera_position_m,
            self.look.camera_rotation_rad,
        )
        self._rgba = model.geom_rgba.copy()
        self._texture = model.tex_data.copy()
        self._ambient = model.vis.headlight.ambient.copy()
        noise = np.random.Generator(np.random.PCG64(1))
        shape = (_NOISE_PICTURES, profile.height, profile.width, 3)
        self._noise = noise.standard_normal(shape, dtype=np.float32)
        actuated = model.actuator_trnid[index.joint_ctrl, 0]
        self._low, self._high = model.jnt_range[actuated].T.copy()
        self._half = float(model.geom_size[index.cube_geom, 0])

    def picture(self, qpos: F64, rng: np.random.Generator) -> LabelledPicture:
        """The state `qpos` under a look drawn from `rng`."""
        data, look = self._data, self.look
        data.qpos[:] = qpos
        plain = bool(rng.uniform() < look.plain_share)
        self._variation.draw(self._spread, rng)
        mujoco.mj_kinematics(self._model, data)
        self._paint(plain, rng)
        mujoco.mj_camlight(self._model, data)
        extra = [] if plain else self._distractors(rng)
        rgb, seen = self._renderer.draw_with(data, self._index.camera, self._index.cube_geom, extra)
        box, area = cube_outline(self._model, data, self._index, self._camera)
        visible = min(1.0, seen / area) if area > 0.0 else 0.0
        base = data.xmat[self._index.base_body].reshape(3, 3)
        p = (data.xpos[self._index.cube_body] - data.xpos[self._index.base_body]) @ base
        return LabelledPicture(self._develop(rgb, plain, rng), box, visible, p, qpos[self._index.joint_qpos].copy())

    def moved_state(self, qpos: F64, rng: np.random.Generator) -> F64:
        """The real state `qpos`, in half of all cases with robot and cube together somewhere else on the ground."""
        state: F64 = qpos.copy()
        if rng.uniform() < 0.5:
            shift = rng.uniform(-1.0, 1.0, 2)
            state[self._index.base_qpos.start : self._index.base_qpos.start + 2] += shift
            state[self._index.cube_qpos : self._index.cube_qpos + 2] += shift
        return state

    def random_state(self, qpos: F64, rng: np.random.Generator) -> F64:
        """A state made from the real one `qpos`: cube somewhere in sight, arm mostly near where it was.

        Bodies may overlap: a picture does not mind.
        """
        state: F64 = qpos.copy()
        low, high = self._low, self._high
        base = self._index.base_qpos
        state[base.start : base.start + 2] += rng.uniform(-1.0, 1.0, 2)
        state[base.start + 3] = rng.uniform(-np.pi, np.pi)
        joints = state[self._index.joint_qpos]
        spread = (high - low) * (0.05 if rng.uniform() < 0.6 else 0.3)
        joints = np.clip(joints + spread * rng.normal(size=len(joints)), low, high)
        joints[-1] = rng.uniform(low[-1], high[-1])
        state[self._index.joint_qpos] = joints
        state[self._index.joint_qpos[-1] + 1] = joints[-1]  # the mimicking finger
        x, y = rng.uniform(0.10, 0.45), rng.uniform(-0.22, 0.22)
        yaw = state[base.start + 3]
        c, s = np.cos(yaw), np.sin(yaw)
        at = self._index.cube_qpos
        state[at : at + 2] = state[base.start : base.start + 2] + np.array([c * x - s * y, s * x + c * y])
        lifted = rng.uniform() < 0.3
        state[at + 2] = self._half + (rng.uniform(0.0, 0.2) if lifted else 0.0)
        axis = rng.normal(size=3) if lifted else np.array([0.0, 0.0, 1.0])
        turn = rng.uniform(-np.pi, np.pi) / 2.0
        state[at + 3] = np.cos(turn)
        state[at + 4 : at + 7] = np.sin(turn) * axis / np.linalg.norm(axis)
        return state

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()

    # -- Look ----------------------------------------------------------------------------------------------------

    def _paint(self, plain: bool, rng: np.random.Generator) -> None:
        model, index = self._model, self._index
        model.geom_rgba[:] = self._rgba
        model.tex_data[:] = self._texture
        model.vis.headlight.ambient[:] = self._ambient
        if not plain:
            model.vis.headlight.ambient[:] *= rng.uniform(0.6, 1.5)
            hue = rng.uniform(-0.02, 0.02) % 1.0
            red = colorsys.hsv_to_rgb(hue, rng.uniform(0.75, 0.98), rng.uniform(0.55, 1.0))
            model.geom_rgba[index.cube_geom, :3] = red
            for colour in np.unique(self._rgba, axis=0):
                same = (self._rgba == colour).all(axis=1)
                same[[index.cube_geom, index.floor_geom]] = False
                if rng.uniform() < 0.6:
                    model.geom_rgba[same, :3] = _colour(rng)
            self._paint_ground(rng)
        self._renderer.upload_texture(0)

    def _paint_ground(self, rng: np.random.Generator) -> None:
        """Two new colours for the checks of the ground, or a speckle of them."""
        pixels = self._texture.reshape(-1, 3).astype(np.int64)
        first = (pixels == pixels[0]).all(axis=1)
        if rng.uniform() < 0.2:
            first = rng.uniform(size=len(first)) < 0.5
        one, other = np.array(_colour(rng)), np.array(_colour(rng))
        other = one + (other - one) * rng.uniform(0.05, 0.8)
        self._model.tex_data[:] = np.rint(255.0 * np.where(first[:, None], one, other)).astype(np.uint8).ravel()

    def _distractors(self, rng: np.random.Generator) -> list[_Thing]:
        data, index = self._data, self._index
        base = data.xmat[index.base_body].reshape(3, 3)
        cube = data.xpos[index.cube_body]
        things = []
        for _ in range(int(rng.integers(0, self.look.distractors_max + 1))):
            size = rng.uniform(0.006, 0.028, 3)
            at = data.xpos[index.base_body] + base @ np.array([rng.uniform(0.1, 0.7), rng.uniform(-0.4, 0.4), 0.0])
            at[2] = size.max() * (1.0 if rng.uniform() < 0.8 else 4.0)
            colour, shape = _colour(rng), _SHAPES[int(rng.integers(len(_SHAPES)))]
            if np.hypot(*(at - cube)[:2]) > 0.03:
                turn = np.zeros(9)
                angle = rng.uniform(-np.pi, np.pi) / 2.0
                mujoco.mju_quat2Mat(turn, np.array([np.cos(angle), 0.0, 0.0, np.sin(angle)]))
                things.append(_Thing(shape, size, at, turn, np.array([*colour, 1.0], np.float32)))
        return things

    def _develop(self, rgb: U8, plain: bool, rng: np.random.Generator) -> U8:
        """What lens and sensor add: blur, gain, noise."""
        look = self.look
        picture = rgb.astype(np.float32)
        if not plain and rng.uniform() < look.blur_share:
            axis, reach = int(rng.integers(2)), int(rng.integers(1, 4))
            picture = np.mean([np.roll(picture, shift, axis=axis) for shift in range(-reach, reach + 1)], axis=0)
        if not plain:
            picture *= rng.uniform(*look.gain) * rng.uniform(0.95, 1.05, 3).astype(np.float32)
        which, shift = int(rng.integers(_NOISE_PICTURES)), int(rng.integers(rgb.shape[1]))
        # Rounded before it is added, as the world's camera does.
        noise = np.rint(np.roll(self._noise[which], shift, axis=1) * rng.uniform(*look.pixel_noise))
        developed: U8 = np.clip(np.rint(picture) + noise, 0.0, 255.0).astype(np.uint8)
        return developed


@dataclass(frozen=True, eq=False)
class _Thing:
    """Something that stands about: shape, size (3,), place (3,), rotation (9,), colour (4,)."""

    shape: mujoco.mjtGeom
    size: F64
    place: F64
    turn: F64
    rgba: np.ndarray


class _Painter(Renderer):
    """A renderer that adds things to the scene and counts the pixels in which one geom is seen."""

    def upload_texture(self, texture: int) -> None:
        self._gl.make_current()
        mujoco.mjr_uploadTexture(self._model, self._context, texture)

    def draw_with(self, data: mujoco.MjData, camera: int, geom: int, things: list[_Thing]) -> tuple[U8, int]:
        self._gl.make_current()
        scene = self._scene
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._view.fixedcamid = camera
        mujoco.mjv_updateScene(self._model, data, self._option, None, self._view, mujoco.mjtCatBit.mjCAT_ALL, scene)
        for thing in things:
            made = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(made, thing.shape, thing.size, thing.place, thing.turn, thing.rgba)
            made.segid = scene.ngeom
            scene.ngeom += 1
        mujoco.mjr_render(self._rect, scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        rgb = np.ascontiguousarray(self._pixels[::-1])
        return rgb, self._count(geom)

    def _count(self, geom: int) -> int:
        scene = self._scene
        shown = [
            g.segid
            for g in scene.geoms[: scene.ngeom]
            if g.objtype == int(mujoco.mjtObj.mjOBJ_GEOM) and g.objid == geom
        ]
        if not shown:
            return 0
        flags = (mujoco.mjtRndFlag.mjRND_SEGMENT, mujoco.mjtRndFlag.mjRND_IDCOLOR)
        for flag in flags:
            scene.flags[flag] = 1
        mujoco.mjr_render(self._rect, scene, self._context)
        for flag in flags:
            scene.flags[flag] = 0
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        wanted = shown[0] + 1
        low, middle = wanted & 255, (wanted >> 8) & 255
        return int(((self._pixels[:, :, 0] == low) & (self._pixels[:, :, 1] == middle)).sum())


def _colour(rng: np.random.Generator) -> tuple[float, float, float]:
    """Any colour that is not red."""
    grey = rng.uniform() < 0.4
    hue = rng.uniform(_RED_HUE, 1.0 - _RED_HUE)
    return colorsys.hsv_to_rgb(hue, rng.uniform(0.0, 0.25) if grey else rng.uniform(0.25, 1.0), rng.uniform(0.08, 0.95))
