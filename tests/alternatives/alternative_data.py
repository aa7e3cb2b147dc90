"""Decisions made by formula, for tests."""

from __future__ import annotations

import numpy as np

from tether.alternatives.collect import Decisions, reach_over
from tether.alternatives.features import SIZE
from tether.assembly import skills
from tether.contracts import Primitive
from tether.fusion.classic import load_classic_config
from tether.resources import resource_path
from tether.student.labels import Scaling

CONFIG = load_classic_config(resource_path("config", "classic.yaml")).decision


def decisions(primitive: Primitive, n: int = 600) -> Decisions:
    """Cubes all over the place in ten episodes: reach over the cube, grasp off by where the cube is."""
    rng = np.random.default_rng(primitive)
    scaling = Scaling(skills())
    state = rng.normal(0.0, 0.05, (n, SIZE)).astype(np.float32)
    state[:, :3] = rng.uniform((0.18, -0.08, 0.0), (0.30, 0.08, 0.02), (n, 3))
    params = np.zeros((n, 5), np.float32)
    for i, row in enumerate(state):
        cube = row[:3].astype(np.float64)
        wanted = (
            reach_over(cube, skills(), CONFIG)
            if primitive is Primitive.REACH
            else skills().clipped(Primitive.GRASP, dx=0.1 * cube[1], dy=-0.1 * cube[1])
        )
        params[i] = scaling.scaled(primitive, wanted)
    return Decisions(state, params, np.arange(n, dtype=np.int64) * 10 // n)
