"""Rules on mass and inertia: what no solid body can have, and what this body can hardly have.

Bounds are those of a rigid body: principal moments A ≤ B ≤ C are positive and A + B ≥ C; a body of mass m
that reaches no farther than R from its centre of mass has C ≤ m R².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import quantiles

import numpy as np

from tether.robot.extents import MeshCorners, link_extent, volume_m3
from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.raw import RawInertial, RawLink, RawRobot, inertia_matrix

_TOO_LARGE = 2.0
"""C above this many m R² is impossible even where shapes leave a little out."""
_TOO_SMALL = 0.005
"""C below this many m R² means that the mass sits in a point; filled bodies have 0.2 to 0.7."""
_OUTLIER = 3.0
"""Radius of gyration, as a multiple of the link's own reach and of the upper quartile of the others."""
_OUTLIER_LINKS = 4
_DENSITY_MAX_KG_M3 = 25_000.0
"""Above osmium (22,590 kg/m³)."""
_DENSITY_MIN_KG_M3 = 1.0
"""Below the air around it."""
_FRAME_FIX = "remove <inertial> if it is only a frame, else write the inertia of the part"


@dataclass(frozen=True)
class _Body:
    link: RawLink
    inertial: RawInertial
    mass_kg: float
    moments: tuple[float, float, float]

    @property
    def gyration_m(self) -> float:
        """Radius of gyration about the axis of the largest moment."""
        return math.sqrt(max(self.moments[2], 0.0) / self.mass_kg) if self.mass_kg > 0.0 else 0.0

    @property
    def possible(self) -> bool:
        """Whether some solid body has this mass and these moments."""
        low, middle, high = self.moments
        return self.mass_kg > 0.0 and low > 0.0 and low + middle >= high * (1.0 - 1e-9)


def moving_links(robot: RawRobot) -> dict[str, list[str]]:
    """Return, for each link that a joint moves, the links that move with it as one body, itself first."""
    known = {link.name for link in robot.links}
    fixed: dict[str, list[str]] = {}
    tops: list[str] = []
    for joint in robot.joints:
        if (
            joint.child not in known
            or joint.parent not in known
            or joint.child is None
            or joint.parent is None
        ):
            continue
        if joint.moves:
            tops.append(joint.child)
        else:
            fixed.setdefault(joint.parent, []).append(joint.child)
    out = {}
    for top in dict.fromkeys(tops):
        body: list[str] = []
        queue = [top]
        while queue:
            name = queue.pop(0)
            if name not in body:
                body.append(name)
                queue += fixed.get(name, [])
        out[top] = body
    return out


def massless_moving(robot: RawRobot) -> Iterator[Finding]:
    """Find links that a joint moves and that have no mass: simulators refuse them, or make some up."""
    links = {link.name: link for link in reversed(robot.links)}
    for top, body in moving_links(robot).items():
        link = links[top]
        if link.inertial is not None and link.inertial.mass_kg is None:
            continue  # unreadable, and reported so
        own = _mass(link)
        rest = sum(max(_mass(links[name]), 0.0) for name in body[1:])
        if own > 0.0:
            continue
        if link.inertial is None:
            message = "is moved by a joint but has no <inertial>"
            if rest > 0.0:
                message += f"; its {rest:g} kg are in links fixed to it, which not all worlds merge"
                fix = "give it its own mass and inertia"
                yield warning(Rule.INERTIAL_MISSING, Kind.LINK, top, message, fix, link.line)
            else:
                fix = "add <inertial> with the mass and inertia of the part"
                yield error(Rule.INERTIAL_MISSING, Kind.LINK, top, message, fix, link.line)
        elif own == 0.0:
            message, fix = "is moved by a joint but has mass 0", "write the mass of the part, kg"
            yield error(Rule.MASS_ZERO, Kind.LINK, top, message, fix, link.inertial.line)


def impossible_mass(robot: RawRobot) -> Iterator[Finding]:
    """Find negative masses, and links at rest with an <inertial> of mass 0."""
    moved = moving_links(robot)
    for link in robot.links:
        if link.inertial is None or link.inertial.mass_kg is None:
            continue
        mass = link.inertial.mass_kg
        if mass < 0.0:
            fix = "write the mass of the part, kg"
            yield error(
                Rule.MASS_NEGATIVE, Kind.LINK, link.name, f"mass {mass:g} kg", fix, link.inertial.line
            )
        elif mass == 0.0 and link.name not in moved:
            message = "<inertial> with mass 0"
            yield warning(Rule.MASS_ZERO, Kind.LINK, link.name, message, _FRAME_FIX, link.inertial.line)


def impossible_inertia(robot: RawRobot) -> Iterator[Finding]:
    """Find inertias that are zero, not positive definite, or break A + B ≥ C. MuJoCo and Gazebo refuse all
    three.
    """
    for body in _bodies(robot):
        if body.mass_kg <= 0.0:
            continue
        low, middle, high = body.moments
        written = f"principal moments {low:.4g}, {middle:.4g}, {high:.4g} kg m²"
        name, line = body.link.name, body.inertial.line
        if not any(body.inertial.inertia or ()):
            message = f"mass {body.mass_kg:g} kg with zero inertia"
            yield error(Rule.INERTIA_ZERO, Kind.LINK, name, message, _FRAME_FIX, line)
        elif low <= 0.0:
            fix = "write the inertia about the centre of mass; look at signs and at ixy, ixz, iyz"
            message = f"inertia is not positive definite: {written}"
            yield error(Rule.INERTIA_NOT_POSITIVE, Kind.LINK, name, message, fix, line)
        elif low + middle < high * (1.0 - 1e-9):
            by = (high - low - middle) / high
            message = f"no solid body has this inertia: {written}, A + B < C by {by:.2g} of C"
            fix = "write the inertia about the centre of mass (CAD: not about the origin), with more digits"
            yield error(Rule.INERTIA_TRIANGLE, Kind.LINK, name, message, fix, line)


def inertia_against_size(robot: RawRobot, meshes: MeshCorners) -> Iterator[Finding]:
    """Find inertias too large or too small for the mass and the shapes of the link."""
    bodies = [body for body in _bodies(robot) if body.possible]
    for body in bodies:
        centre = np.array(body.inertial.origin.xyz or (0.0, 0.0, 0.0))
        extent = link_extent(body.link, meshes)
        reach = extent.reach_from(centre)
        name, line = body.link.name, body.inertial.line
        bound = body.mass_kg * reach**2
        if not extent.complete:
            yield from _against_others(robot, body, bodies, max(reach, _frame_reach(robot, body)))
        elif body.moments[2] > _TOO_LARGE * bound:
            times = body.moments[2] / bound if bound else math.inf
            message = (
                f"inertia {body.moments[2]:.3g} kg m² is {times:.3g} times "
                f"what {body.mass_kg:g} kg can have within {reach:.3g} m"
            )
            yield error(
                Rule.INERTIA_SIZE,
                Kind.LINK,
                name,
                message,
                "look at the units: kg m², not g mm² or g cm²",
                line,
            )
        elif body.moments[2] < _TOO_SMALL * bound:
            message = (
                f"inertia {body.moments[2]:.3g} kg m² is that of a point: {body.mass_kg:g} kg that reach "
                f"{reach:.3g} m have about {0.3 * bound:.2g}"
            )
            yield warning(Rule.INERTIA_SIZE, Kind.LINK, name, message, "look at the units: kg m²", line)


def _against_others(robot: RawRobot, body: _Body, bodies: list[_Body], reach: float) -> Iterator[Finding]:
    """Compare a link of unknown shape with where its frames lie and with the other links of the robot."""
    others = [other.gyration_m for other in bodies if other is not body]
    if len(others) < _OUTLIER_LINKS:
        return
    # The upper quartile, not the median: a hand of twenty small fingers says little about a leg.
    most = quantiles(others, n=4)[2]
    usual = max(reach, most)
    if body.gyration_m > _OUTLIER * usual:
        message = (
            f"inertia {body.moments[2]:.3g} kg m² at {body.mass_kg:g} kg means a part "
            f"{2 * body.gyration_m:.2g} m across; its frames reach {reach:.2g} m and the other "
            f"links are up to {2 * most:.2g} m"
        )
        fix = "look at the units: kg m², not g mm² or g cm²"
        yield warning(Rule.INERTIA_SIZE, Kind.LINK, body.link.name, message, fix, body.inertial.line)


def _frame_reach(robot: RawRobot, body: _Body) -> float:
    """Return how far the link's own frame, its shapes' frames and its joints lie from its centre of mass."""
    centre = body.inertial.origin.xyz or (0.0, 0.0, 0.0)
    points = [(0.0, 0.0, 0.0)]
    points += [shape.origin.xyz for shape in body.link.shapes if shape.origin.xyz is not None]
    points += [
        joint.origin.xyz
        for joint in robot.joints
        if joint.parent == body.link.name and joint.origin.xyz is not None
    ]
    return max(math.dist(point, centre) for point in points)


def mass_against_volume(robot: RawRobot) -> Iterator[Finding]:
    """Find masses that no matter has at the volume of the collision (else visual) primitives."""
    for body in _bodies(robot):
        shapes = [shape for shape in body.link.shapes if shape.use == "collision"] or list(body.link.shapes)
        volumes = [volume_m3(shape) for shape in shapes]
        known = [volume for volume in volumes if volume is not None]
        total = sum(known)
        if not known or len(known) != len(volumes) or total <= 0.0 or body.mass_kg <= 0.0:
            continue
        density = body.mass_kg / total
        if not _DENSITY_MIN_KG_M3 <= density <= _DENSITY_MAX_KG_M3:
            message = f"mass {body.mass_kg:g} kg in {total:.3g} m³ is {density:.3g} kg/m³ (water: 1000)"
            fix = "look at the units: kg and m"
            yield warning(Rule.MASS_SIZE, Kind.LINK, body.link.name, message, fix, body.inertial.line)


def _bodies(robot: RawRobot) -> list[_Body]:
    out = []
    for link in robot.links:
        inertial = link.inertial
        if inertial is not None and inertial.mass_kg is not None and inertial.inertia is not None:
            low, middle, high = np.linalg.eigvalsh(inertia_matrix(inertial.inertia)).tolist()
            out.append(_Body(link, inertial, inertial.mass_kg, (low, middle, high)))
    return out


def _mass(link: RawLink) -> float:
    return (link.inertial.mass_kg or 0.0) if link.inertial is not None else 0.0


RULES = (massless_moving, impossible_mass, impossible_inertia, mass_against_volume)
