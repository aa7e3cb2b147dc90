"""Workspace: how deep a configuration lies in forbidden space, and how much room there is around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tether.safety.kinematics import Point, PointChain
from tether.safety.settings import Box, Cylinder, WorkspaceLimits

Depths = tuple[float, ...]
"""Metres into each forbidden zone, one number a (link, zone); 0 outside it."""

_TOLERANCE_M = 1e-9
_GRADIENT_STEP = 1e-6
_BISECTIONS = 4


def outside_box(p: Point, box: Box) -> float:
    """How far p lies outside the box, the largest over the axes; 0 inside."""
    low, high = box.low_m, box.high_m
    return max(low[0] - p[0], p[0] - high[0], low[1] - p[1], p[1] - high[1], low[2] - p[2], p[2] - high[2], 0.0)


def inside_cylinder(p: Point, cylinder: Cylinder) -> float:
    """How far p would have to move to leave the upright cylinder; 0 outside."""
    below_top = min(p[2] - cylinder.low_m, cylinder.high_m - p[2])
    if below_top <= 0.0:
        return 0.0
    return max(min(cylinder.radius_m - math.hypot(p[0] - cylinder.x_m, p[1] - cylinder.y_m), below_top), 0.0)


def box_room(p: Point, box: Box) -> float:
    """How far p has to move at least to leave the box, and may move in any direction within it; 0 outside."""
    low, high = box.low_m, box.high_m
    room = min(p[0] - low[0], high[0] - p[0], p[1] - low[1], high[1] - p[1], p[2] - low[2], high[2] - p[2])
    return max(room, 0.0)


def box_distance(p: Point, box: Box) -> float:
    """Distance of p from the box; 0 inside."""
    low, high = box.low_m, box.high_m
    return math.hypot(*(max(low[i] - p[i], p[i] - high[i], 0.0) for i in range(3)))


def cylinder_distance(p: Point, cylinder: Cylinder) -> float:
    """Distance of p from the upright cylinder; 0 inside."""
    across = max(math.hypot(p[0] - cylinder.x_m, p[1] - cylinder.y_m) - cylinder.radius_m, 0.0)
    return math.hypot(across, max(cylinder.low_m - p[2], p[2] - cylinder.high_m, 0.0))


class Workspace:
    """The zones of safety.yaml over the links that it names."""

    def __init__(self, limits: WorkspaceLimits, chains: dict[str, PointChain]) -> None:
        self._limits = limits
        self._chains = [chains[link] for link in limits.links]
        zones = ["the workspace box", *limits.keep_out_boxes, *limits.keep_out_cylinders]
        self._names = [(link, zone) for link in limits.links for zone in zones]

    @property
    def levers(self) -> tuple[float, ...]:
        """(n,) metres that any of the points can move at most per unit of each joint."""
        return tuple(max(column) for column in zip(*(chain.levers for chain in self._chains), strict=True))

    def room(self, q: Sequence[float]) -> float:
        """Metres that every point can move in any direction without touching forbidden space."""
        limits = self._limits
        out = math.inf
        for chain in self._chains:
            p = chain(q)
            out = min(
                out,
                box_room(p, limits.box),
                *(box_distance(p, box) for box in limits.keep_out_boxes.values()),
                *(cylinder_distance(p, cylinder) for cylinder in limits.keep_out_cylinders.values()),
            )
        return out

    def depths(self, q: Sequence[float]) -> Depths:
        """Depth of configuration q, (n,), in each zone."""
        out: list[float] = []
        for chain in self._chains:
            p = chain(q)
            out.append(outside_box(p, self._limits.box))
            out += [box_room(p, box) for box in self._limits.keep_out_boxes.values()]
            out += [inside_cylinder(p, cylinder) for cylinder in self._limits.keep_out_cylinders.values()]
        return tuple(out)

    def excess(self, depths: Depths, allowed: Depths) -> tuple[float, int]:
        """The largest excess over the allowed depth in metres, and which (link, zone) it is."""
        zone = max(range(len(depths)), key=lambda k: depths[k] - allowed[k])
        return depths[zone] - allowed[zone], zone

    def name(self, zone: int) -> tuple[str, str]:
        """Link and zone of an index of `Depths`."""
        return self._names[zone]

    def gradient(self, q: Sequence[float], zone: int) -> list[float]:
        """(n,) change of the depth in one zone with each joint, m per rad (m), where the depth is not 0."""
        zones = len(self._names) // len(self._chains)
        chain, which = self._chains[zone // zones], zone % zones
        here = self._depth(chain(q), which)
        out = []
        for i in range(len(q)):
            if chain.levers[i] == 0.0:
                out.append(0.0)
                continue
            moved = list(q)
            moved[i] += _GRADIENT_STEP
            out.append((self._depth(chain(moved), which) - here) / _GRADIENT_STEP)
        return out

    def _depth(self, p: Point, which: int) -> float:
        limits = self._limits
        if which == 0:
            return outside_box(p, limits.box)
        boxes = list(limits.keep_out_boxes.values())
        if which <= len(boxes):
            return box_room(p, boxes[which - 1])
        return inside_cylinder(p, list(limits.keep_out_cylinders.values())[which - 1 - len(boxes)])


def no_deeper(depths: Depths, allowed: Depths) -> bool:
    """True if no depth exceeds the allowed one: motion along or out of a zone passes, deeper does not."""
    return all(d <= a + _TOLERANCE_M for d, a in zip(depths, allowed, strict=True))


def largest_share(admissible: Callable[[float], bool]) -> float:
    """The largest share of the way in [0, 1) found admissible by bisection; 0, braking, always is."""
    good, bad = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (good + bad)
        if admissible(middle):
            good = middle
        else:
            bad = middle
    return good
