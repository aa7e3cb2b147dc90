"""A URDF as it stands in the file: nothing made up, unreadable values left out and reported.

The linter's rules and the strict model both start from this. Semantics follow urdfdom's parser and the URDF
specification (wiki.ros.org/urdf/XML): attributes that the specification gives a default have it here, all
others are None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tether import rotations
from tether.robot.findings import Finding, Kind, Rule, error
from tether.robot.xmltree import Element

Vector = tuple[float, float, float]
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[^ \t\r\n]+")
_NOT_FINITE = frozenset({"nan", "inf", "infinity", "1.#qnan", "1.#inf", "1.#ind"})
INERTIA_KEYS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


class JointType(str, Enum):
    """Joint types of URDF."""

    FIXED = "fixed"
    REVOLUTE = "revolute"
    CONTINUOUS = "continuous"
    PRISMATIC = "prismatic"
    FLOATING = "floating"
    PLANAR = "planar"


class ShapeType(str, Enum):
    """Geometry types of URDF (capsule since URDF 1.2)."""

    BOX = "box"
    CYLINDER = "cylinder"
    SPHERE = "sphere"
    CAPSULE = "capsule"
    MESH = "mesh"


@dataclass(frozen=True)
class Origin:
    """Pose of a frame in its parent: xyz in m, rpy in rad about fixed axes. None: could not be read."""

    xyz: Vector | None = (0.0, 0.0, 0.0)
    rpy: Vector | None = (0.0, 0.0, 0.0)

    def pose(self) -> NDArray[np.float64]:
        """Return the pose as a (4, 4) matrix; what could not be read counts as 0."""
        pose = np.eye(4)
        pose[:3, 3] = self.xyz or (0.0, 0.0, 0.0)
        pose[:3, :3] = rotations.rpy_to_matrix(self.rpy or (0.0, 0.0, 0.0))
        return pose


@dataclass(frozen=True)
class RawInertial:
    """<inertial>. inertia: ixx, ixy, ixz, iyy, iyz, izz in kg m². None: absent or unreadable."""

    line: int
    origin: Origin
    mass_kg: float | None
    inertia: tuple[float, ...] | None


@dataclass(frozen=True)
class RawShape:
    """<geometry> of a <visual> or <collision>. numbers: box size, radius and length, or mesh scale, if read."""

    line: int
    use: str
    origin: Origin
    type: ShapeType | None
    numbers: tuple[float, ...] | None = None
    filename: str | None = None


@dataclass(frozen=True)
class RawLink:
    """<link>."""

    name: str
    line: int
    inertial: RawInertial | None
    shapes: tuple[RawShape, ...]


@dataclass(frozen=True)
class RawLimit:
    """<limit>. None: attribute absent or unreadable (urdfdom takes lower and upper as 0 then)."""

    line: int
    lower: float | None
    upper: float | None
    effort: float | None
    velocity: float | None
    unreadable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RawMimic:
    """<mimic>: position = multiplier · position of joint + offset."""

    line: int
    joint: str | None
    multiplier: float | None
    offset: float | None


@dataclass(frozen=True)
class RawJoint:
    """<joint>. type None: absent or unknown. axis: as written, (1, 0, 0) if absent, None if unreadable."""

    name: str
    line: int
    type: JointType | None
    parent: str | None
    child: str | None
    origin: Origin
    axis: Vector | None
    limit: RawLimit | None
    mimic: RawMimic | None
    damping: float = 0.0
    friction: float = 0.0

    @property
    def moves(self) -> bool:
        """Whether the child can move against the parent."""
        return self.type is not None and self.type is not JointType.FIXED


@dataclass(frozen=True)
class RawRobot:
    """<robot>: links and joints in file order, duplicates included. findings: what could not be read."""

    name: str | None
    links: tuple[RawLink, ...]
    joints: tuple[RawJoint, ...]
    findings: tuple[Finding, ...] = ()

    def named(self) -> tuple[tuple[Kind, Sequence[RawLink | RawJoint]], ...]:
        """Return links and joints with their kind, for rules that treat them alike."""
        return (Kind.LINK, self.links), (Kind.JOINT, self.joints)


@dataclass
class _Reader:
    """Reads attributes for one link or joint and collects what is wrong with them."""

    kind: Kind
    subject: str
    findings: list[Finding] = field(default_factory=list)

    def fault(self, rule: Rule, message: str, fix: str, line: int) -> None:
        self.findings.append(error(rule, self.kind, self.subject, message, fix, line))

    def numbers(self, element: Element, name: str, count: int) -> tuple[float, ...] | None:
        """Return `count` finite numbers of an attribute; None, and a finding, where it does not hold them."""
        text = element.attributes[name]
        where = f'<{element.tag} {name}="{shorten(text)}">'
        values = [parse_number(word) for word in _WORD.findall(text)]
        if any(value is None for value in values):
            # Of an expression left over there is one finding already, by the rule on unexpanded xacro.
            if "${" not in text and "$(" not in text:
                fix = "write numbers with a decimal point, separated by spaces"
                self.fault(Rule.NUMBER_UNREADABLE, f"{where} is not a number", fix, element.line)
            return None
        finite = tuple(value for value in values if value is not None and math.isfinite(value))
        if len(finite) != len(values):
            message, fix = f"{where} is not finite", "write a finite number"
            self.fault(Rule.NUMBER_NOT_FINITE, message, fix, element.line)
            return None
        if len(finite) != count:
            many = f"{len(finite)} number{'' if len(finite) == 1 else 's'}"
            self.fault(Rule.NUMBER_COUNT, f"{where} holds {many}, not {count}", f"write {count}", element.line)
            return None
        return finite

    def number(self, element: Element, name: str, default: float | None = None) -> float | None:
        """Return one number; `default` where the attribute is absent, None where it is unreadable."""
        if name not in element.attributes:
            return default
        values = self.numbers(element, name, 1)
        return values[0] if values else None

    def required(self, element: Element, name: str) -> float | None:
        """Return one number; reports its absence."""
        if name not in element.attributes:
            self.fault(Rule.ATTRIBUTE_MISSING, f"<{element.tag}> has no {name}", f'add {name}="…"', element.line)
            return None
        return self.number(element, name)

    def vector(self, element: Element | None, name: str, default: Vector) -> Vector | None:
        """Return three numbers; `default` where element or attribute is absent, None where unreadable."""
        if element is None or name not in element.attributes:
            return default
        values = self.numbers(element, name, 3)
        return (values[0], values[1], values[2]) if values else None

    def origin(self, owner: Element) -> Origin:
        element = owner.first("origin")
        return Origin(self.vector(element, "xyz", (0.0, 0.0, 0.0)), self.vector(element, "rpy", (0.0, 0.0, 0.0)))


def inertia_matrix(inertia: Sequence[float]) -> NDArray[np.float64]:
    """Return the symmetric (3, 3) matrix of ixx, ixy, ixz, iyy, iyz, izz."""
    xx, xy, xz, yy, yz, zz = inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def parse_number(word: str) -> float | None:
    """Return the number a word stands for, possibly not finite; None where it is none.

    Stricter than `float`, which takes 1_000 and other digits than 0 to 9; wider in the names of NaN and
    infinity that C libraries print.
    """
    if _NUMBER.fullmatch(word):
        return float(word)
    return math.nan if word.lstrip("+-").lower() in _NOT_FINITE else None


def shorten(text: str, limit: int = 60) -> str:
    """Return a text on one line, cut to `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_robot(root: Element) -> RawRobot:
    """Read a <robot> element. Never fails: what cannot be read is None and reported in `findings`."""
    findings: list[Finding] = []
    links = tuple(_read_link(element, index, findings) for index, element in enumerate(root.all("link")))
    joints = tuple(_read_joint(element, index, findings) for index, element in enumerate(root.all("joint")))
    return RawRobot(root.get("name"), links, joints, tuple(findings))


def _read_link(element: Element, index: int, findings: list[Finding]) -> RawLink:
    name = element.get("name") or ""
    reader = _Reader(Kind.LINK, name or f"(link {index + 1})", findings)
    inertial = element.first("inertial")
    shapes = [_read_shape(child, reader) for child in element.children if child.tag in ("visual", "collision")]
    return RawLink(
        name, element.line, _read_inertial(inertial, reader) if inertial is not None else None, tuple(shapes)
    )


def _read_inertial(element: Element, reader: _Reader) -> RawInertial:
    mass, inertia = element.first("mass"), element.first("inertia")
    for tag, child in (("mass", mass), ("inertia", inertia)):
        if child is None:
            reader.fault(Rule.INERTIAL_INCOMPLETE, f"<inertial> has no <{tag}>", f"add <{tag}>", element.line)
    moments = [reader.required(inertia, key) for key in INERTIA_KEYS] if inertia else [None]
    whole = tuple(value for value in moments if value is not None)
    return RawInertial(
        element.line,
        reader.origin(element),
        reader.required(mass, "value") if mass else None,
        whole if len(whole) == len(INERTIA_KEYS) else None,
    )


def _read_shape(element: Element, reader: _Reader) -> RawShape:
    use, origin, geometry = element.tag, reader.origin(element), element.first("geometry")
    body = (
        next((child for child in geometry.children if not child.tag.startswith("xacro:")), None) if geometry else None
    )
    if body is None:
        if geometry is None or not geometry.children:
            fix = "add <geometry> with one box, cylinder, sphere or mesh"
            reader.fault(Rule.GEOMETRY_MISSING, f"<{use}> has no geometry", fix, element.line)
        return RawShape(element.line, use, origin, None)
    try:
        shape = ShapeType(body.tag)
    except ValueError:
        fix = "use box, cylinder, sphere, capsule or mesh"
        reader.fault(Rule.GEOMETRY_UNKNOWN, f"<{use}> has the unknown geometry <{shorten(body.tag)}>", fix, body.line)
        return RawShape(body.line, use, origin, None)
    if shape is ShapeType.MESH:
        filename = body.get("filename")
        if not filename:
            reader.fault(Rule.ATTRIBUTE_MISSING, "<mesh> has no filename", 'add filename="…"', body.line)
        scale = reader.vector(body, "scale", (1.0, 1.0, 1.0))
        return RawShape(body.line, use, origin, shape, scale, filename or None)
    if shape is ShapeType.BOX:
        if "size" not in body.attributes:
            reader.fault(Rule.ATTRIBUTE_MISSING, "<box> has no size", 'add size="x y z"', body.line)
            return RawShape(body.line, use, origin, shape)
        return RawShape(body.line, use, origin, shape, reader.numbers(body, "size", 3))
    keys = ("radius",) if shape is ShapeType.SPHERE else ("radius", "length")
    values = [reader.required(body, key) for key in keys]
    sizes = tuple(value for value in values if value is not None)
    return RawShape(body.line, use, origin, shape, sizes if len(sizes) == len(keys) else None)


def _read_joint(element: Element, index: int, findings: list[Finding]) -> RawJoint:
    name = element.get("name") or ""
    reader = _Reader(Kind.JOINT, name or f"(joint {index + 1})", findings)
    written = element.get("type")
    joint_type = next((known for known in JointType if known.value == written), None)
    if joint_type is None and "${" not in (written or ""):
        found = f"the type {shorten(written)!r}" if written else "no type"
        fix = "use one of " + ", ".join(known.value for known in JointType)
        reader.fault(Rule.JOINT_TYPE, f"has {found}", fix, element.line)
    limit, mimic, dynamics = element.first("limit"), element.first("mimic"), element.first("dynamics")
    # Nothing of a fixed joint's axis is ever used, so nothing is asked of it.
    axis = element.first("axis") if joint_type is not JointType.FIXED else None
    return RawJoint(
        name=name,
        line=element.line,
        type=joint_type,
        parent=_linked(element, "parent", reader),
        child=_linked(element, "child", reader),
        origin=reader.origin(element),
        axis=reader.vector(axis, "xyz", (1.0, 0.0, 0.0)),
        limit=_read_limit(limit, reader) if limit is not None else None,
        mimic=_read_mimic(mimic, reader) if mimic is not None else None,
        damping=(reader.number(dynamics, "damping", 0.0) or 0.0) if dynamics else 0.0,
        friction=(reader.number(dynamics, "friction", 0.0) or 0.0) if dynamics else 0.0,
    )


def _linked(joint: Element, tag: str, reader: _Reader) -> str | None:
    element = joint.first(tag)
    name = element.get("link") if element else None
    if not name:
        reader.fault(Rule.JOINT_UNLINKED, f"names no {tag} link", f'add <{tag} link="…"/>', joint.line)
    return name or None


def _read_limit(element: Element, reader: _Reader) -> RawLimit:
    keys: Sequence[str] = ("lower", "upper", "effort", "velocity")
    values = {key: reader.number(element, key) for key in keys}
    unreadable = frozenset(key for key in keys if key in element.attributes and values[key] is None)
    return RawLimit(element.line, values["lower"], values["upper"], values["effort"], values["velocity"], unreadable)


def _read_mimic(element: Element, reader: _Reader) -> RawMimic:
    joint = element.get("joint") or None
    if joint is None:
        reader.fault(Rule.ATTRIBUTE_MISSING, "<mimic> has no joint", 'add joint="…"', element.line)
    return RawMimic(
        element.line, joint, reader.number(element, "multiplier", 1.0), reader.number(element, "offset", 0.0)
    )
