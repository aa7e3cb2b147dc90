"""What the seed varies from episode to episode."""

from __future__ import annotations

import mujoco
import numpy as np

from tether.world.model import ModelIndex
from tether.world.profile import VariationProfile


class Variation:
    """Draws friction, mass, light and camera pose from the seed, always starting from the compiled values."""

    def __init__(self, model: mujoco.MjModel, index: ModelIndex) -> None:
        self._model = model
        self._index = index
        self._friction = model.geom_friction.copy()
        self._mass = float(model.body_mass[index.cube_body])
        self._inertia = model.body_inertia[index.cube_body].copy()
        self._diffuse = model.light_diffuse.copy()
        self._headlight = model.vis.headlight.diffuse.copy()
        self._camera_pos = model.cam_pos[index.camera].copy()
        self._camera_quat = model.cam_quat[index.camera].copy()

    def draw(self, spec: VariationProfile, rng: np.random.Generator) -> float:
        """Vary the model within `spec`; returns the factor on the servos' lag."""
        model, index = self._model, self._index
        friction, mass, light, lag = (
            rng.uniform(*span) for span in (spec.friction_scale, spec.mass_scale, spec.light_scale, spec.lag_scale)
        )
        model.geom_friction[:] = self._friction
        model.geom_friction[:, 0] *= friction
        model.body_mass[index.cube_body] = self._mass * mass
        model.body_inertia[index.cube_body] = self._inertia * mass
        model.light_diffuse[:] = self._diffuse * light
        model.vis.headlight.diffuse[:] = self._headlight * light
        model.cam_pos[index.camera] = self._camera_pos + spec.camera_position_m * rng.uniform(-1.0, 1.0, 3)
        turn = np.zeros(4)
        angle = spec.camera_rotation_rad * rng.uniform(-1.0, 1.0, 3)
        mujoco.mju_euler2Quat(turn, angle, "xyz")
        mujoco.mju_mulQuat(model.cam_quat[index.camera], self._camera_quat, turn)
        return float(lag)
