"""What the fallback makes of a student's action where no twin can be followed: the same more slowly, or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether.contracts import HybridAction, Primitive, Source
from tether.skills import SkillTable

_SPEEDS = frozenset({"speed", "descend_speed"})
"""Parameters that say how fast a motion goes; their lower bound is slow."""
_RATES = frozenset({"vx", "vy", "wz"})
"""Parameters that are rates about zero."""


def slowed(action: HybridAction, skills: SkillTable, share: float) -> HybridAction:
    """The action with no speed above `share` of its range. `track` follows the cube and has no speed of its own."""
    spec = skills[action.primitive]
    params = action.params.copy()
    for i, param in enumerate(spec.params):
        if param.name in _SPEEDS:
            params[i] = min(params[i], param.low + share * (param.high - param.low))
        elif param.name in _RATES:
            params[i] = np.clip(params[i], share * param.low, share * param.high)
    return replace(action, params=params, source=Source.FALLBACK)


def held(action: HybridAction) -> HybridAction:
    """Stand still where the joints are."""
    return replace(action, primitive=Primitive.HOLD, params=np.zeros(0), source=Source.FALLBACK)
