"""Rules on mass and inertia that no body can have: its principal moments A ≤ B ≤ C are positive, A + B ≥ C."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.raw import RawInertial, RawLink, RawRobot, Vector, inertia_matrix

_MASS_MIN_KG, _MASS_MAX_KG = 1e-9, 1e6
"""A microgram and a thousand tonnes: beyond, simulators lose their digits (MuJoCo ends at 1e-15 kg)."""
_FRAME_FIX = "remove <inertial> if it is only a frame, else write the inertia of the part"


@dataclass(frozen=True)
class Body:
    """Mass and principal moments of a link, ascending, kg m²."""

    link: RawLink
    inertial: RawInertial
    mass_kg: float
    moments: tuple[float, float, float]

    @property
    def centre(self) -> Vector:
        """Centre of mass in the link's frame, m; the origin where it could not be read."""
        return self.inertial.origin.xyz or (0.0, 0.0, 0.0)

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
    fixed: dict[str, list[str]] = defaultdict(list)
    tops: dict[str, None] = {}
    for joint in robot.joints:
        if joint.parent is None or joint.child is None or not {joint.parent, joint.child} <= known:
            continue
        if joint.moves:
            tops[joint.child] = None
        else:
            fixed[joint.parent].append(joint.child)
    out = {}
    for top in tops:
        body: dict[str, None] = {}
        waiting = [top]
        while waiting:
            name = waiting.pop()
            if name not in body:
                body[name] = None
                waiting += fixed.get(name, [])
        out[top] = list(body)
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
    """Find masses that are negative or beyond all robots, and links at rest with an <inertial> of mass 0."""
    moved = moving_links(robot)
    for link in robot.links:
        if link.inertial is None or link.inertial.mass_kg is None:
            continue
        mass = link.inertial.mass_kg
        if mass < 0.0:
            fix = "write the mass of the part, kg"
            yield error(Rule.MASS_NEGATIVE, Kind.LINK, link.name, f"mass {mass:g} kg", fix, link.inertial.line)
        elif mass > 0.0 and not _MASS_MIN_KG <= mass <= _MASS_MAX_KG:
            message, fix = (
                f"mass {mass:g} kg, robots have {_MASS_MIN_KG:g} to {_MASS_MAX_KG:g}",
                "look at the units: kg",
            )
            yield error(Rule.MASS_SIZE, Kind.LINK, link.name, message, fix, link.inertial.line)
        elif mass == 0.0 and link.name not in moved:
            message = "<inertial> with mass 0"
            yield warning(Rule.MASS_ZERO, Kind.LINK, link.name, message, _FRAME_FIX, link.inertial.line)


def impossible_inertia(robot: RawRobot) -> Iterator[Finding]:
    """Find inertias that are zero, not positive definite, or break A + B ≥ C: MuJoCo and Gazebo refuse them.

    Whatever the mass is, or if it could not be read; only a zero inertia is in order where the mass is 0 as well.
    """
    for link in robot.links:
        inertial = link.inertial
        if inertial is None or inertial.inertia is None:
            continue
        low, middle, high = _moments(inertial.inertia)
        written = f"principal moments {low:.4g}, {middle:.4g}, {high:.4g} kg m²"
        if not any(inertial.inertia):
            if inertial.mass_kg:
                message = f"mass {inertial.mass_kg:g} kg with zero inertia"
                yield error(Rule.INERTIA_ZERO, Kind.LINK, link.name, message, _FRAME_FIX, inertial.line)
        elif low <= 0.0:
            fix = "write the inertia about the centre of mass; look at signs and at ixy, ixz, iyz"
            message = f"inertia is not positive definite: {written}"
            yield error(Rule.INERTIA_NOT_POSITIVE, Kind.LINK, link.name, message, fix, inertial.line)
        elif low + middle < high * (1.0 - 1e-9):
            by = (high - low - middle) / high
            message = f"no solid body has this inertia: {written}, A + B < C by {by:.2g} of C"
            fix = "write the inertia about the centre of mass (CAD: not about the origin), with more digits"
            yield error(Rule.INERTIA_TRIANGLE, Kind.LINK, link.name, message, fix, inertial.line)


def bodies(robot: RawRobot) -> list[Body]:
    """Return the links whose mass and inertia could be read, in file order."""
    out = []
    for link in robot.links:
        inertial = link.inertial
        if inertial is not None and inertial.mass_kg is not None and inertial.inertia is not None:
            out.append(Body(link, inertial, inertial.mass_kg, _moments(inertial.inertia)))
    return out


def _moments(inertia: tuple[float, ...]) -> tuple[float, float, float]:
    low, middle, high = np.linalg.eigvalsh(inertia_matrix(inertia)).tolist()
    return low, middle, high


def _mass(link: RawLink) -> float:
    return (link.inertial.mass_kg or 0.0) if link.inertial is not None else 0.0


RULES = (massless_moving, impossible_mass, impossible_inertia)
