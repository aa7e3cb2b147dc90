"""What the teacher may choose: a few primitives of the skill table, their parameters within scales of the defaults."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.contracts import F32, F64, Primitive
from tether.skills import SkillTable

PRIMITIVES = (Primitive.HOLD, Primitive.TRACK, Primitive.GRASP, Primitive.LIFT, Primitive.RETREAT)
"""Choices in the order of the networks; a pick needs no others, and none of these moves the base."""

SCALES: dict[tuple[Primitive, str], float] = {
    (Primitive.TRACK, "dx"): 0.010,
    (Primitive.TRACK, "dy"): 0.010,
    (Primitive.TRACK, "height"): 0.030,
    (Primitive.TRACK, "opening"): 0.012,
    (Primitive.GRASP, "dx"): 0.010,
    (Primitive.GRASP, "dy"): 0.010,
    (Primitive.GRASP, "dz"): 0.006,
    (Primitive.GRASP, "lead"): 0.050,
    (Primitive.GRASP, "descend_speed"): 0.150,
    (Primitive.LIFT, "height"): 0.040,
    (Primitive.LIFT, "speed"): 0.150,
    (Primitive.RETREAT, "height"): 0.060,
}
"""Furthest from the default, in the parameter's unit; the hardware's bounds in the skill table cut it further."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One primitive with the bounds (n,) that the teacher keeps to."""

    primitive: Primitive
    names: tuple[str, ...]
    low: F64
    high: F64

    def from_unit(self, z: F32) -> F64:
        """Parameters (n,) of numbers (n,) in [-1, 1]."""
        values: F64 = self.low + 0.5 * (np.clip(z.astype(np.float64), -1.0, 1.0) + 1.0) * (self.high - self.low)
        return np.minimum(np.maximum(values, self.low), self.high)

    def to_unit(self, params: F64) -> F32:
        """Numbers in [-1, 1] of parameters (n,); those beyond the bounds are drawn to them."""
        z: F32 = np.clip(2.0 * (params - self.low) / (self.high - self.low) - 1.0, -1.0, 1.0).astype(np.float32)
        return z


def choices(skills: SkillTable) -> tuple[Choice, ...]:
    """The choices in order; raises KeyError where the table lacks a parameter that has a scale."""
    for primitive, name in SCALES:
        skills[primitive].index(name)
    made = []
    for primitive in PRIMITIVES:
        params = skills[primitive].params
        scales = [SCALES[primitive, p.name] for p in params]
        low = np.array([max(p.low, p.default - s) for p, s in zip(params, scales, strict=True)])
        high = np.array([min(p.high, p.default + s) for p, s in zip(params, scales, strict=True)])
        made.append(Choice(primitive, tuple(p.name for p in params), low, high))
    return tuple(made)
