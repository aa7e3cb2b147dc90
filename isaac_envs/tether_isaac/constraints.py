"""What USD cannot tell Newton: which shapes do not touch, and how stiffly one finger follows the other."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from isaaclab.physics import PhysicsEvent
from isaaclab.sim import SimulationContext
from isaaclab_newton.physics import NewtonManager
from isaaclab_newton.physics.newton_manager_cfg import NewtonBuilderCfg

GROUND = "/World/Ground/"
_CARRIED = ("base_link", "wheel_", "mast_")


def keep_carried_parts_off_the_ground() -> None:
    """Before the engine's model is made: take every pair of the ground and a part of the base out of collision.

    The base is carried by its joints, so contact with the ground would only fight them; the MuJoCo world has none.
    Newton goes by pairs and groups of shapes of its own, not by USD's `mjc:contype`.
    """
    NewtonManager.register_callback(_filter, PhysicsEvent.MODEL_INIT)


def _filter(_: Any) -> None:
    sim = SimulationContext.instance()
    builder = sim.get_or_create_backend(NewtonBuilderCfg(physics_cfg=sim.cfg.physics))
    shapes = list(enumerate(builder.shape_label))
    ground = [i for i, label in shapes if label.startswith(GROUND)]
    carried = [i for i, label in shapes if label.split("/")[-2].startswith(_CARRIED)]
    if not ground or not carried:
        raise RuntimeError(f"no ground or no part of the base among the engine's shapes: {builder.shape_label}")
    for a in ground:
        for b in carried:
            builder.add_shape_collision_filter_pair(a, b)


def couple_fingers(model: mujoco.MjModel) -> None:
    """Once the engine runs: the mimicking finger follows as stiffly as in `model`, of the MuJoCo world.

    Newton gives every mimic constraint MuJoCo's defaults (20 ms); a cube is then gripped askew and slips.
    """
    engine = NewtonManager._solver.mjw_model
    for name, wanted in (("eq_solref", model.eq_solref), ("eq_solimp", model.eq_solimp)):
        array = getattr(engine, name)
        values = array.numpy()
        if values.shape[1:] != wanted.shape:
            raise RuntimeError(f"{name}: the engine has {values.shape[1:]}, the MuJoCo world {wanted.shape}")
        array.assign(np.broadcast_to(wanted.astype(np.float32), values.shape))
