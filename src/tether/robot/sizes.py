"""Rules on mass and inertia against the size of the link.

A body of mass m that reaches no farther than R from its centre of mass has no principal moment above m R².
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from tether.robot.extents import MeshCorners, link_extent, volume_m3
from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.inertia import Body, bodies
from tether.robot.raw import RawRobot, Vector

_TOO_LARGE = 2.0
"""More than this many m R² is impossible even where shapes leave a little out."""
_TOO_SMALL = 0.005
"""Less than this many m R² means that the mass sits in a point; filled bodies have 0.2 to 0.7."""
_OUTLIER = 3.0
"""Radius of gyration, as a multiple of the link's own reach and of the upper quartile of the others."""
_OUTLIER_LINKS = 5
_DENSITY_MAX_KG_M3 = 25_000.0
"""Above osmium (22,590 kg/m³)."""
_DENSITY_MIN_KG_M3 = 1.0
"""Below the air around it."""
_REACH_MAX_M = 100.0
"""No link reaches farther from its frame: Canadarm2, the longest robot arm in space, has 17.6 m over all its links."""
_UNITS_FIX = "look at the units: kg m², not g mm² or g cm²"


def inertia_against_size(robot: RawRobot, meshes: MeshCorners) -> Iterator[Finding]:
    """Find inertias too large or too small for the mass and the shapes of the link.

    Where a mesh is not at hand the shape is unknown; the link is then compared with where its frames lie, with the
    other links of the robot and with the largest of all robots.
    """
    possible = [body for body in bodies(robot) if body.possible]
    usual = _UsualSize([body.gyration_m for body in possible])
    children: dict[str, list[Vector]] = defaultdict(list)
    for joint in robot.joints:
        if joint.parent is not None and joint.origin.xyz is not None:
            children[joint.parent].append(joint.origin.xyz)
    for body in possible:
        extent = link_extent(body.link, meshes)
        reach = extent.reach_from(np.array(body.centre))
        if extent.complete:
            yield from _against_reach(body, reach)
        else:
            frames = _frame_reach(body, children[body.link.name])
            if body.gyration_m > _REACH_MAX_M:
                yield _beyond_robots(body)
            else:
                yield from _against_others(body, max(reach, frames), usual.without(body.gyration_m))


def _against_reach(body: Body, reach: float) -> Iterator[Finding]:
    bound, high = body.mass_kg * reach**2, body.moments[2]
    name, line = body.link.name, body.inertial.line
    if high > _TOO_LARGE * bound:
        times = f"{high / bound:.3g} times" if bound > 0.0 else "more than"
        message = f"inertia {high:.3g} kg m² is {times} what {body.mass_kg:g} kg can have within {reach:.3g} m"
        yield error(Rule.INERTIA_SIZE, Kind.LINK, name, message, _UNITS_FIX, line)
    elif high < _TOO_SMALL * bound:
        message = (
            f"inertia {high:.3g} kg m² is that of a point: {body.mass_kg:g} kg that reach {reach:.3g} m "
            f"have about {0.3 * bound:.2g}"
        )
        yield warning(Rule.INERTIA_SIZE, Kind.LINK, name, message, _UNITS_FIX, line)


def _against_others(body: Body, reach: float, others: float | None) -> Iterator[Finding]:
    if others is not None and body.gyration_m > _OUTLIER * max(reach, others):
        across = 2 * body.gyration_m
        message = (
            f"inertia {body.moments[2]:.3g} kg m² at {body.mass_kg:g} kg means a part {across:.2g} m across; "
            f"its frames reach {reach:.2g} m and most other links are below {2 * others:.2g} m"
        )
        yield warning(Rule.INERTIA_SIZE, Kind.LINK, body.link.name, message, _UNITS_FIX, body.inertial.line)


def _beyond_robots(body: Body) -> Finding:
    high, across = body.moments[2], 2 * body.gyration_m
    message = (
        f"inertia {high:.3g} kg m² at {body.mass_kg:g} kg means a part {across:.3g} m across; "
        f"those of robots reach {_REACH_MAX_M:g} m at most"
    )
    return error(Rule.INERTIA_SIZE, Kind.LINK, body.link.name, message, _UNITS_FIX, body.inertial.line)


def centre_of_mass_away(robot: RawRobot) -> Iterator[Finding]:
    """Find centres of mass farther from the link's frame than any robot's part reaches."""
    for link in robot.links:
        centre = None if link.inertial is None else link.inertial.origin.xyz
        if link.inertial is not None and centre is not None and math.hypot(*centre) > _REACH_MAX_M:
            message = f"its centre of mass lies {math.hypot(*centre):.3g} m from its frame; at most {_REACH_MAX_M:g}"
            fix = "look at the units of the <inertial>'s origin: m, not mm"
            yield error(Rule.INERTIA_SIZE, Kind.LINK, link.name, message, fix, link.inertial.line)


class _UsualSize:
    """Upper quartile of the radii of gyration of a robot's links, but one.

    Not the median: a hand of twenty small fingers says little about a leg.
    """

    def __init__(self, radii_m: list[float]) -> None:
        self._radii_m = sorted(radii_m)

    def without(self, radius_m: float) -> float | None:
        """Return the upper quartile of all radii but this one; None where there are too few."""
        if len(self._radii_m) < _OUTLIER_LINKS:
            return None
        at = 3 * (len(self._radii_m) - 2) // 4
        return self._radii_m[at if self._radii_m[at] < radius_m else at + 1]


def _frame_reach(body: Body, children: list[Vector]) -> float:
    """Return how far the link's own frame, its shapes' frames and its joints lie from its centre of mass."""
    points = [(0.0, 0.0, 0.0), *children]
    points += [shape.origin.xyz for shape in body.link.shapes if shape.origin.xyz is not None]
    return max(math.dist(point, body.centre) for point in points)


def mass_against_volume(robot: RawRobot) -> Iterator[Finding]:
    """Find masses that no matter has at the volume of the collision (else visual) primitives."""
    for link in robot.links:
        mass_kg = None if link.inertial is None else link.inertial.mass_kg
        shapes = [shape for shape in link.shapes if shape.use == "collision"] or list(link.shapes)
        volumes = [volume_m3(shape) for shape in shapes]
        known = [volume for volume in volumes if volume is not None]
        total = sum(known)
        if link.inertial is None or mass_kg is None or mass_kg <= 0.0:
            continue
        if not known or len(known) != len(volumes) or total <= 0.0:
            continue
        density = mass_kg / total
        if not _DENSITY_MIN_KG_M3 <= density <= _DENSITY_MAX_KG_M3:
            message = f"mass {mass_kg:g} kg in {total:.3g} m³ is {density:.3g} kg/m³ (water: 1000)"
            fix = "look at the units: kg and m"
            yield warning(Rule.MASS_SIZE, Kind.LINK, link.name, message, fix, link.inertial.line)


RULES = (mass_against_volume, centre_of_mass_away)
