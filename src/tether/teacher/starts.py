"""States from which retries begin: what a learner's own mistakes lead to, and a teacher of its own never visits.

Each is reached by acting: a prefix of primitives, played before the episode is handed over, so that it is a state of
the world that commands can bring about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tether.contracts import F64, Primitive
from tether.skills import SkillTable


class Start(str, Enum):
    """How an episode begins."""

    FRESH = "fresh"
    MISSED = "missed"
    """The gripper went down beside the cube and closed, perhaps on nothing."""
    INTERRUPTED = "interrupted"
    """A grasp was given up on the way down or half closed; the fingers stand anywhere between open and closed."""
    DROPPED = "dropped"
    """The cube was lifted and let go: it lies elsewhere, often turned."""
    LOST_THREAD = "lost thread"
    """Primitives at random, each held for a while."""


RETRIES = (Start.MISSED, Start.INTERRUPTED, Start.DROPPED, Start.LOST_THREAD)


@dataclass(frozen=True, eq=False)
class Leg:
    """A primitive with its parameters (n,) for a number of decisions."""

    primitive: Primitive
    params: F64
    decisions: int


def prefix(start: Start, skills: SkillTable, rng: np.random.Generator) -> list[Leg]:
    """The legs that lead to a start; none for FRESH."""
    if start is Start.FRESH:
        return []
    track = Leg(Primitive.TRACK, skills.clipped(Primitive.TRACK, height=0.05, opening=0.044), int(rng.integers(8, 16)))
    if start is Start.MISSED:
        angle, distance = rng.uniform(0.0, 2.0 * math.pi), rng.uniform(0.012, 0.030)
        dx, dy = distance * math.cos(angle), distance * math.sin(angle)
        miss = skills.clipped(Primitive.GRASP, dx=dx, dy=dy)
        return [track, Leg(Primitive.GRASP, miss, int(rng.integers(10, 30)))]
    grasp = skills[Primitive.GRASP].default
    if start is Start.INTERRUPTED:
        legs = [track, Leg(Primitive.GRASP, grasp, int(rng.integers(3, 18)))]
        then = (Primitive.RETREAT, Primitive.LIFT, Primitive.HOLD)[int(rng.integers(3))]
        return [*legs, Leg(then, skills[then].default, int(rng.integers(1, 6)))]
    if start is Start.DROPPED:
        lift = Leg(Primitive.LIFT, skills.clipped(Primitive.LIFT, height=0.08), int(rng.integers(2, 10)))
        drop = Leg(Primitive.RETREAT, skills[Primitive.RETREAT].default, int(rng.integers(1, 8)))
        return [track, Leg(Primitive.GRASP, grasp, 22), lift, drop]
    return [_any(skills, rng) for _ in range(int(rng.integers(1, 5)))]


def _any(skills: SkillTable, rng: np.random.Generator) -> Leg:
    among = (Primitive.HOLD, Primitive.TRACK, Primitive.REACH, Primitive.GRASP, Primitive.LIFT, Primitive.RETREAT)
    primitive = among[int(rng.integers(len(among)))]
    spec = skills[primitive]
    params = spec.low + rng.random(len(spec.params)) * (spec.high - spec.low)
    return Leg(primitive, params, int(rng.integers(2, 14)))
