"""Rules on elements that the model does not hold: version, materials, dynamics, extensions, misspelt tags.

What urdfdom's parser refuses is an error. A material that is named but defined nowhere is no fault: readers pick a
colour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.raw import RawRobot, shorten
from tether.robot.xmltree import Element

_VERSIONS = ("1.0", "1.1", "1.2")
_EXPRESSION = re.compile(r"\$[({]")


def version(root: Element) -> Iterator[Finding]:
    """Find a version of URDF that no urdfdom reads, or not Jazzy's (urdf_parser/src/model.cpp of 4.0.1)."""
    written = root.get("version")
    if written is not None and written not in _VERSIONS:
        message = f'version="{shorten(written)}"; readers know {", ".join(_VERSIONS)}'
        fix = 'write version="1.0" or leave it out'
        yield error(Rule.URDF_VERSION, Kind.ROBOT, root.get("name") or "robot", message, fix, root.line)
    elif written not in (None, "1.0"):
        message = f'version="{written}"; the urdfdom of ROS 2 Jazzy (4.0) refuses all but 1.0'
        fix = 'write version="1.0" unless only newer readers are meant'
        yield warning(Rule.URDF_VERSION, Kind.ROBOT, root.get("name") or "robot", message, fix, root.line)


def capsules(root: Element) -> Iterator[Finding]:
    """Find capsules in a description of version 1.0: urdfdom then drops the shape and goes on."""
    if root.get("version") not in (None, "1.0"):
        return
    for link in root.all("link"):
        for use in (*link.all("visual"), *link.all("collision")):
            for shape in use.all("geometry"):
                for capsule in shape.all("capsule"):
                    message = f"<{use.tag}> is a capsule, which urdfdom drops below version 1.1, and in Jazzy always"
                    fix = "use a cylinder and two spheres"
                    name = link.get("name") or "(link)"
                    yield warning(Rule.GEOMETRY_UNKNOWN, Kind.LINK, name, message, fix, capsule.line)


def duplicate_materials(root: Element) -> Iterator[Finding]:
    """Find materials defined twice at the top level."""
    seen: set[str] = set()
    for element in root.all("material"):
        name = element.get("name")
        if name in seen:
            message, fix = f"material {name!r} is defined twice", "remove one"
            yield error(Rule.MATERIAL_DUPLICATE, Kind.ROBOT, root.get("name") or "robot", message, fix, element.line)
        elif name:
            seen.add(name)


def dynamics_and_safety(root: Element) -> Iterator[Finding]:
    """Find <dynamics> that says nothing, and <safety_controller> without k_velocity."""
    for joint in root.all("joint"):
        name = joint.get("name") or "(joint without a name)"
        dynamics, safety = joint.first("dynamics"), joint.first("safety_controller")
        if dynamics is not None and not {"damping", "friction"} & set(dynamics.attributes):
            message, fix = "<dynamics> with neither damping nor friction", "add one or remove it"
            yield error(Rule.DYNAMICS_EMPTY, Kind.JOINT, name, message, fix, dynamics.line)
        if safety is not None and "k_velocity" not in safety.attributes:
            message, fix = "<safety_controller> without k_velocity", "add k_velocity or remove it"
            yield error(Rule.SAFETY_INCOMPLETE, Kind.JOINT, name, message, fix, safety.line)


def unknown_references(root: Element, robot: RawRobot) -> Iterator[Finding]:
    """Find transmissions, ros2_control joints and gazebo tags that name no link or joint of the file."""
    joints = {joint.name for joint in robot.joints}
    everything = joints | {link.name for link in robot.links}
    for element in root.children:
        if element.tag in ("transmission", "ros2_control"):
            grade = error if element.tag == "ros2_control" else warning
            for inner in element.walk():
                name = inner.get("name")
                if inner.tag == "joint" and name and name not in joints and not _EXPRESSION.search(name):
                    message = f"<{element.tag}> names the joint {name!r}, which does not exist"
                    fix = "name a joint of this file"
                    yield grade(Rule.REFERENCE_UNKNOWN, Kind.JOINT, name, message, fix, inner.line)
        elif element.tag == "gazebo":
            name = element.get("reference")
            if name and name not in everything and not _EXPRESSION.search(name):
                message = "<gazebo reference> names no link or joint of this file"
                fix = "name a link or joint of this file"
                yield warning(Rule.REFERENCE_UNKNOWN, Kind.ROBOT, name, message, fix, element.line)


_KNOWN_CHILDREN = {
    "robot": ("link", "joint", "material", "transmission", "gazebo", "ros2_control"),
    "link": ("inertial", "visual", "collision"),
    "joint": (
        "parent",
        "child",
        "origin",
        "axis",
        "limit",
        "mimic",
        "dynamics",
        "safety_controller",
        "calibration",
    ),
    "inertial": ("origin", "mass", "inertia"),
    "visual": ("origin", "geometry", "material"),
    "collision": ("origin", "geometry", "material"),
}
_ALIKE = 0.75


def misspelt_elements(root: Element) -> Iterator[Finding]:
    """Find tags that are nearly those of URDF (<limits>, <inertail>, <Link>): readers pass over them.

    Other unknown tags are left alone: extensions are many.
    """
    robot = root.get("name") or "robot"
    for top in root.children:
        kind = Kind(top.tag) if top.tag in ("link", "joint") else Kind.ROBOT
        owner = (top.get("name") or f"({top.tag})") if kind is not Kind.ROBOT else robot
        pairs = [(root, top)]
        if kind is not Kind.ROBOT:
            pairs += [(top, child) for child in top.children]
            pairs += [(child, inner) for child in top.children for inner in child.children]
        for parent, child in pairs:
            known = _KNOWN_CHILDREN.get(parent.tag, ())
            if child.tag in known or ":" in child.tag:
                continue
            near = get_close_matches(child.tag.lower(), known, n=1, cutoff=_ALIKE)
            if near:
                message = f"<{shorten(child.tag)}> in <{parent.tag}> is not read by anybody"
                yield warning(Rule.ELEMENT_MISSPELT, kind, owner, message, f"write <{near[0]}>", child.line)


_ONCE = {
    "link": ("inertial",),
    "joint": ("parent", "child", "origin", "axis", "limit", "mimic", "dynamics", "safety_controller"),
    "inertial": ("origin", "mass", "inertia"),
}


def repeated_elements(root: Element) -> Iterator[Finding]:
    """Find what may stand once and stands twice (<inertial>, <parent>, <limit>): readers take different ones."""
    for top in root.children:
        if top.tag not in ("link", "joint"):
            continue
        name = top.get("name") or f"({top.tag})"
        for owner in (top, *top.all("inertial")):
            for tag in _ONCE[owner.tag]:
                for extra in owner.all(tag)[1:]:
                    message = f"<{owner.tag}> holds more than one <{tag}>; readers take different ones"
                    yield error(Rule.ELEMENT_REPEATED, Kind(top.tag), name, message, "keep one", extra.line)


RULES = (misspelt_elements, repeated_elements, version, capsules, duplicate_materials, dynamics_and_safety)
