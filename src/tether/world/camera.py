"""The camera: pictures rendered off screen at their acquisition time, delivered when the profile says."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from tether.contracts import U8, CameraModel, ImageSample, SampleRef, Stream
from tether.world.gl import make_context
from tether.world.model import ModelIndex
from tether.world.profile import CameraProfile
from tether.world.streams import DelayDraw, DelayQueue, Draw, generator

_NOISE_PICTURES = 4


def camera_model(profile: CameraProfile) -> CameraModel:
    """Pinhole intrinsics of the profile's camera: square pixels, centre between the middle pixels."""
    f = profile.height / 2.0 / math.tan(profile.fovy_rad / 2.0)
    k = np.array([[f, 0.0, (profile.width - 1) / 2.0], [0.0, f, (profile.height - 1) / 2.0], [0.0, 0.0, 1.0]])
    return CameraModel(profile.width, profile.height, k)


class Renderer:
    """Draws one camera of a model. No shadows, no reflections, no multisampling: speed before beauty.

    The GL context belongs to the thread that made the renderer. `close` frees it.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._model = model
        self._gl = make_context(width, height)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=256)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = 0
        self._option = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)

    def draw(self, data: mujoco.MjData, camera: int) -> U8:
        """The picture of `camera` as `data` stands, (height, width, 3) uint8, top row first; a fresh array."""
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._view.fixedcamid = camera
        return self._draw(data)

    def draw_from(self, data: mujoco.MjData, view: Any) -> U8:
        """The picture seen by a free camera (mujoco.MjvCamera), for films."""
        kept, self._view = self._view, view
        try:
            return self._draw(data)
        finally:
            self._view = kept

    def _draw(self, data: mujoco.MjData) -> U8:
        self._gl.make_current()
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._view, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return np.ascontiguousarray(self._pixels[::-1])

    def close(self) -> None:
        """Free the GL context; drawing afterwards is an error."""
        self._context.free()
        self._gl.free()


class CameraSensor:
    """Takes a picture whenever one is due and sends it into the delivery queue."""

    def __init__(self, model: mujoco.MjModel, index: ModelIndex, profile: CameraProfile) -> None:
        self._model = model
        self._index = index
        self._profile = profile
        self._camera = camera_model(profile)
        self._renderer = Renderer(model, profile.width, profile.height)
        shape = (_NOISE_PICTURES, profile.height, profile.width, 3)
        # A few noise pictures, shifted at random, cost a tenth of drawing new ones; made once, the same in every world.
        noise = np.random.Generator(np.random.PCG64(0)).standard_normal(shape) * profile.pixel_noise
        self._noise = None
        if profile.pixel_noise > 0.0:
            whole = np.rint(np.clip(noise, -127, 127)).astype(np.int16)
            self._noise = np.concatenate([whole, whole], axis=2)  # side by side twice: any shift is a view
            self._sum = np.empty(shape[1:], np.int16)

    def reset(self, seed: int, start_ns: int = 0) -> None:
        """Start an episode at `start_ns`; the first picture is taken then."""
        self._sequence = 0
        self._start_ns = start_ns
        self._delay = DelayDraw(self._profile.delay, generator(seed, Draw.CAMERA_DELAY))
        self._rng = generator(seed, Draw.CAMERA_NOISE)

    def skip(self, lost_ns: int) -> None:
        """Time went on by `lost_ns` without pictures."""
        self._start_ns += lost_ns

    def acquire(self, data: mujoco.MjData, now_ns: int, queue: DelayQueue) -> None:
        """Take the picture that is due at `now_ns`, if one is: the first tick at or after sequence / rate."""
        due_ns = self._start_ns + round(self._sequence * 1e9 / self._profile.rate_hz)
        if now_ns < due_ns:
            return
        ref = SampleRef(Stream.CAMERA, now_ns, self._sequence)
        self._sequence += 1
        delay_ns = self._delay.next_ns()
        if delay_ns is None:
            return
        # After a step the poses in `data` are those of its beginning; bring them up to the present.
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_camlight(self._model, data)
        rgb = self._renderer.draw(data, self._index.camera)
        queue.send(now_ns + delay_ns, ImageSample(ref, self._noisy(rgb), self._camera))

    def _noisy(self, rgb: U8) -> U8:
        if self._noise is None:
            return rgb
        picture, shift = (int(v) for v in self._rng.integers([_NOISE_PICTURES, self._profile.width]))
        first = -shift % self._profile.width
        np.add(rgb, self._noise[picture][:, first : first + self._profile.width], out=self._sum)
        np.clip(self._sum, 0, 255, out=self._sum)
        return self._sum.astype(np.uint8)

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()
