"""The robot as its description says: joint order, limits, masses, frames, and forward kinematics.

Frozen. SI units and radians. A joint's frame is the child link's frame at position zero (URDF's convention).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from tether.arrays import read_only
from tether.errors import Fault, InvalidInputError
from tether.robot import joints as joint_rules
from tether.robot import kinematics, structure
from tether.robot.description import expand
from tether.robot.findings import Finding, Severity
from tether.robot.parts import F64, Joint, JointLimits, Link, Mimic
from tether.robot.raw import JointType, RawJoint, RawLink, RawRobot, inertia_matrix, read_robot
from tether.robot.xmltree import parse_xml

Positions = Mapping[str, float] | Sequence[float] | F64
"""Joint positions: by name, or in the order of `RobotModel.joint_names`; rad (m for prismatic)."""
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class RobotModel:
    """A robot. joints, links: file order, fixed and mimic joints included. root: link above all others.

    joint_names: the joints that can be commanded (not fixed, not mimic), in file order; every array over
    joints has this order.
    """

    name: str
    root: str
    joints: tuple[Joint, ...]
    links: tuple[Link, ...]
    joint_names: tuple[str, ...] = field(init=False)
    _joint: dict[str, Joint] = field(init=False, repr=False)
    _link: dict[str, Link] = field(init=False, repr=False)
    _above: dict[str, Joint] = field(init=False, repr=False)
    _index: dict[str, int] = field(init=False, repr=False)
    _chains: dict[tuple[str, str], tuple[kinematics.Chain, kinematics.Chain]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(j.name for j in self.joints if j.type is not JointType.FIXED and j.mimic is None)
        derived = {
            "joint_names": names,
            "_joint": {joint.name: joint for joint in self.joints},
            "_link": {link.name: link for link in self.links},
            "_above": {joint.child: joint for joint in self.joints},
            "_index": {name: index for index, name in enumerate(names)},
            "_chains": {},
        }
        for attribute, value in derived.items():
            object.__setattr__(self, attribute, value)

    def joint(self, name: str) -> Joint:
        """Return a joint; raises InvalidInputError that lists the joints there are."""
        return _named(self._joint, name, "joint", self.name)

    def link(self, name: str) -> Link:
        """Return a link; raises InvalidInputError that lists the links there are."""
        return _named(self._link, name, "link", self.name)

    def limits(self, name: str) -> JointLimits:
        """Return the limits of a moving joint; raises InvalidInputError for a fixed one."""
        limits = self.joint(name).limits
        if limits is None:
            fault = Fault(name, "a fixed joint, which has no limits", "a joint that moves")
            raise InvalidInputError(f"limits in robot {self.name!r}", [fault])
        return limits

    @property
    def lower(self) -> F64:
        """(n,) lower limits of position, −inf where continuous."""
        return np.array([self.limits(name).lower for name in self.joint_names])

    @property
    def upper(self) -> F64:
        """(n,) upper limits of position, +inf where continuous."""
        return np.array([self.limits(name).upper for name in self.joint_names])

    @property
    def velocity_limit(self) -> F64:
        """(n,) largest speeds, rad/s (m/s for prismatic)."""
        return np.array([self.limits(name).velocity for name in self.joint_names])

    @property
    def effort_limit(self) -> F64:
        """(n,) largest efforts, N m (N for prismatic)."""
        return np.array([self.limits(name).effort for name in self.joint_names])

    @property
    def mass_kg(self) -> float:
        """Mass of all links."""
        return sum(link.mass_kg for link in self.links)

    def reorder(self, names: Sequence[str], values: Sequence[float] | F64) -> F64:
        """Return values in the order of `joint_names`.

        Raises InvalidInputError naming every missing, extra or repeated joint and every value that is not
        finite.
        """
        return reorder(names, values, self.joint_names, f"joints of robot {self.name!r}")

    def positions(self, q: Positions) -> dict[str, float]:
        """Return the position of every moving joint by name, mimic joints included."""
        values = self._vector(q)
        out = {}
        for joint in self.joints:
            if joint.mimic is not None:
                source = values[self._index[joint.mimic.joint]]
                out[joint.name] = float(joint.mimic.multiplier * source + joint.mimic.offset)
            elif joint.type is not JointType.FIXED:
                out[joint.name] = float(values[self._index[joint.name]])
        return out

    def transform(self, base: str, link: str, q: Positions) -> tuple[F64, F64]:
        """Return position (3,), m, and rotation (3, 3) of a link in a base link's frame: v_base = R v_link.

        q: positions of all joints in `joint_names`. Raises InvalidInputError for unknown links, and for
        missing, extra or non-finite positions.
        """
        values = self._vector(q)
        up, down = self._chain_pair(base, link)
        pose = kinematics.poses(down, values)[-1]
        if not up.empty:
            from_ancestor = kinematics.poses(up, values)[-1]
            rotation = from_ancestor[:3, :3].T
            return rotation @ (pose[:3, 3] - from_ancestor[:3, 3]), rotation @ pose[:3, :3]
        return pose[:3, 3], pose[:3, :3]

    def jacobian(self, base: str, link: str, q: Positions) -> F64:
        """Return the (6, n) Jacobian of a link's origin in the base link's axes: 3 rows linear, 3 angular.

        Columns follow `joint_names`. base must be an ancestor of link (or the link itself).
        """
        values = self._vector(q)
        self.link(base)
        ancestors = self._ancestors(self.link(link).name)
        if base not in ancestors:
            fault = Fault("base", repr(base), f"an ancestor of {link!r}: {', '.join(ancestors)}")
            raise InvalidInputError(f"jacobian in robot {self.name!r}", [fault])
        _, down = self._chain_pair(base, link)
        return kinematics.jacobian(down, values)

    def _ancestors(self, link: str) -> list[str]:
        out = [link]
        while out[-1] in self._above:
            out.append(self._above[out[-1]].parent)
        return out

    def _source(self, joint: Joint) -> tuple[int, float, float]:
        if joint.mimic is not None:
            return self._index[joint.mimic.joint], joint.mimic.multiplier, joint.mimic.offset
        return self._index[joint.name], 1.0, 0.0

    def _vector(self, q: Positions) -> F64:
        if isinstance(q, Mapping):
            return self.reorder(tuple(q), tuple(q.values()))
        values = np.asarray(q, dtype=np.float64)
        if values.shape != (len(self.joint_names),):
            expected = f"({len(self.joint_names)},): {', '.join(self.joint_names)}"
            raise InvalidInputError(
                f"positions of robot {self.name!r}", [Fault("q", f"shape {values.shape}", expected)]
            )
        if not np.isfinite(values).all():
            return self.reorder(self.joint_names, values)
        return values

    def _chain_pair(self, base: str, link: str) -> tuple[kinematics.Chain, kinematics.Chain]:
        """Return chains from the nearest common ancestor to base and to link."""
        known = self._chains.get((base, link))
        if known is None:
            self.link(base)
            self.link(link)
            to_link, to_base = self._ancestors(link), self._ancestors(base)
            common = next(name for name in to_base if name in set(to_link))
            known = (
                kinematics.chain(self._path(common, base), self._source),
                kinematics.chain(self._path(common, link), self._source),
            )
            self._chains[(base, link)] = known
        return known

    def _path(self, ancestor: str, link: str) -> list[Joint]:
        """Return the joints from an ancestor down to a link."""
        path: list[Joint] = []
        while link != ancestor:
            path.append(self._above[link])
            link = path[-1].parent
        return path[::-1]


def _named(table: Mapping[str, _T], name: str, what: str, robot: str) -> _T:
    try:
        return table[name]
    except KeyError:
        fault = Fault(what, repr(name), f"one of {', '.join(table)}")
        raise InvalidInputError(f"{what} in robot {robot!r}", [fault]) from None


def reorder(names: Sequence[str], values: Sequence[float] | F64, wanted: Sequence[str], what: str = "joints") -> F64:
    """Return values (len(names),) in the order of `wanted`, matched by name.

    Raises InvalidInputError that names every missing, extra or repeated name and every value that is not
    finite.
    """
    faults = []
    given = np.asarray(values, dtype=np.float64)
    if given.shape != (len(names),):
        faults.append(Fault("values", f"shape {given.shape}", f"({len(names)},), one a name"))
    expected = f"exactly {', '.join(wanted)}"
    missing = [name for name in wanted if name not in names]
    extra = sorted(set(names) - set(wanted))
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    for word, found in (("missing", missing), ("extra", extra), ("repeated", repeated)):
        if found:
            faults.append(Fault("names", f"{word}: {', '.join(found)}", expected))
    if given.ndim == 1:
        faults += [
            Fault(name, repr(float(value)), "a finite number")
            for name, value in zip(names, given, strict=False)
            if not math.isfinite(value)
        ]
    if faults:
        raise InvalidInputError(what, faults)
    at = {name: index for index, name in enumerate(names)}
    return given[[at[name] for name in wanted]]


def load_robot(
    path: str | Path, package_paths: Sequence[Path] = (), arguments: Mapping[str, str] | None = None
) -> RobotModel:
    """Read a robot from .urdf or .xacro; see `tether.robot.description.expand` for the arguments.

    Raises InvalidInputError with every fault at once. Stricter than URDF where a controller needs it: each
    joint that moves must have limits of velocity and effort; floating and planar joints are refused. Meshes
    are not looked for.
    """
    root = parse_xml(expand(path, package_paths, arguments))
    if root.tag != "robot":
        fault = Fault(str(path), f"<{root.tag}> as its outermost element", "<robot>")
        raise InvalidInputError(f"robot description {path}", [fault])
    return build_model(read_robot(root), str(path))


def read_model(urdf: str) -> RobotModel:
    """Return the model of an expanded description given as text; refuses what `load_robot` refuses."""
    return build_model(read_robot(parse_xml(urdf)))


def build_model(raw: RawRobot, where: str = "robot description") -> RobotModel:
    """Return the model of a parsed description; raises InvalidInputError with every fault at once."""
    findings: list[Finding] = list(raw.findings)
    for rule in (*structure.RULES, *joint_rules.RULES):
        findings += rule(raw)
    faults = [
        Fault(f"{finding.kind.value} {finding.subject}", finding.message, finding.fix)
        for finding in findings
        if finding.severity is Severity.ERROR
    ]
    faults += _stricter_faults(raw)
    if faults:
        fix = "list everything with its line by: tether urdf check FILE"
        raise InvalidInputError(f"robot description {where}", faults, fix)
    children = {joint.child for joint in raw.joints}
    return RobotModel(
        name=raw.name or "",
        root=next(link.name for link in raw.links if link.name not in children),
        joints=tuple(_joint(joint) for joint in raw.joints),
        links=tuple(_link(link) for link in raw.links),
    )


def _stricter_faults(raw: RawRobot) -> list[Fault]:
    faults = []
    for joint in raw.joints:
        if joint.type is JointType.CONTINUOUS and joint.limit is None:
            found = "continuous without <limit>"
            faults.append(Fault(f"joint {joint.name}", found, 'limits, <limit effort="…" velocity="…"/>'))
        elif joint.type in (JointType.FLOATING, JointType.PLANAR):
            expected = "fixed, revolute, continuous or prismatic"
            faults.append(Fault(f"joint {joint.name}", f"type {joint.type.value}", expected))
    return faults


def _joint(raw: RawJoint) -> Joint:
    # build_model has refused every description in which one of these is None.
    if raw.type is None or raw.parent is None or raw.child is None or raw.axis is None:
        raise AssertionError(f"joint {raw.name}: unread value after checks")
    limits = mimic = None
    if raw.type is not JointType.FIXED and raw.limit is not None:
        bounded = raw.type is not JointType.CONTINUOUS
        limits = JointLimits(
            lower=(raw.limit.lower or 0.0) if bounded else -math.inf,
            upper=(raw.limit.upper or 0.0) if bounded else math.inf,
            velocity=raw.limit.velocity or 0.0,
            effort=raw.limit.effort or 0.0,
        )
    if raw.type is not JointType.FIXED and raw.mimic is not None and raw.mimic.joint is not None:
        mimic = Mimic(raw.mimic.joint, float(raw.mimic.multiplier or 0.0), float(raw.mimic.offset or 0.0))
    axis = np.array(raw.axis)
    if raw.type is not JointType.FIXED:
        axis = axis / np.linalg.norm(axis)
    return Joint(
        name=raw.name,
        type=raw.type,
        parent=raw.parent,
        child=raw.child,
        pose_parent_joint=read_only(raw.origin.pose()),
        axis=read_only(axis),
        limits=limits,
        mimic=mimic,
        damping=raw.damping,
        friction=raw.friction,
    )


def _link(raw: RawLink) -> Link:
    if raw.inertial is None or raw.inertial.inertia is None:
        return Link(raw.name, 0.0, read_only(np.zeros(3)), read_only(np.zeros((3, 3))))
    pose = raw.inertial.origin.pose()
    inertia = pose[:3, :3] @ inertia_matrix(raw.inertial.inertia) @ pose[:3, :3].T
    return Link(raw.name, raw.inertial.mass_kg or 0.0, read_only(pose[:3, 3].copy()), read_only(inertia))
