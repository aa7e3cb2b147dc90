"""What the seed varies in the physics: friction and the cube's mass, taken from the mirrors that drew them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp
from isaaclab_newton.physics import NewtonManager
from newton import ModelFlags

from tether.world.model import ModelIndex


class PhysicsVariation:
    """Hands what `tether.world.variation` drew for an episode over to the engine. The lag needs no engine."""

    def __init__(self, scene: Any, model: mujoco.MjModel, index: ModelIndex) -> None:
        self._robot, self._cube = scene["robot"], scene["cube"]
        self._device = scene.env_origins.device
        self._cube_geom, self._cube_body = index.cube_geom, index.cube_body
        self._friction = float(model.geom_friction[index.cube_geom, 0])
        self._mass = float(model.body_mass[index.cube_body])
        self._applied: dict[int, tuple[float, float]] = {}
        self._bindings: list[tuple[torch.Tensor, torch.Tensor]] = []

    def apply(self, envs: Sequence[int], models: Sequence[mujoco.MjModel]) -> None:
        """Give environments the friction and the mass of their mirrors; those that have them are left alone."""
        drawn = {env: self._factors(model) for env, model in zip(envs, models, strict=True)}
        changed = {env: factors for env, factors in drawn.items() if self._applied.get(env, (1.0, 1.0)) != factors}
        if not changed:
            return
        ids = torch.tensor(list(changed), dtype=torch.int32, device=self._device)
        mass = torch.tensor([[self._mass * m] for _, m in changed.values()], dtype=torch.float32, device=self._device)
        self._cube.set_masses_index(masses=mass, env_ids=ids)
        by_env = dict(zip(envs, models, strict=True))
        inertia = [np.diag(by_env[env].body_inertia[self._cube_body]).ravel() for env in changed]
        rows = torch.tensor(np.array(inertia, np.float32)[:, None, :], device=self._device)
        self._cube.set_inertias_index(inertias=rows, env_ids=ids)
        self._set_friction(changed)
        self._applied.update(changed)

    def _factors(self, model: mujoco.MjModel) -> tuple[float, float]:
        friction = float(model.geom_friction[self._cube_geom, 0]) / self._friction
        return friction, float(model.body_mass[self._cube_body]) / self._mass

    def _set_friction(self, changed: dict[int, tuple[float, float]]) -> None:
        if not self._bindings:
            engine = NewtonManager.get_model()
            for asset in (self._robot, self._cube):
                view = wp.to_torch(asset.root_view.get_attribute("shape_material_mu", engine)[:, 0])
                self._bindings.append((view, view.clone()))
        for view, compiled in self._bindings:
            for env, (friction, _) in changed.items():
                view[env] = compiled[env] * friction
        NewtonManager.add_model_change(ModelFlags.SHAPE_PROPERTIES)
