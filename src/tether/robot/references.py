"""Rules on what a description points at: xacro that was never expanded, mesh files, names in extensions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tether.robot.description import XACRO_PREFIX
from tether.robot.extents import F64
from tether.robot.findings import Finding, Kind, error, warning
from tether.robot.meshes import read_mesh
from tether.robot.raw import RawRobot, ShapeType, shorten
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import Element

_EXPRESSION = re.compile(r"\$\{[^}]*\}?|\$\([^)]*\)?")
_MESH_MAX_M = 20.0
"""A mesh larger than this belongs to no robot of this world; it is in millimetres."""


def unexpanded_xacro(root: Element) -> Iterator[Finding]:
    """Find xacro tags, `${…}` and `$(…)` left in what should be plain URDF. One finding a tag, with all it
    holds.
    """
    for element, kind, owner in _with_owner(root):
        if element.tag.startswith(XACRO_PREFIX):
            name = element.get("name") or element.get("filename") or element.get("value")
            message = f"<{element.tag}{f' {shorten(name)!r}' if name else ''}> was not expanded"
            yield error("xacro-unexpanded", kind, owner, message, "run xacro on it first", element.line)
            continue
        texts = [*element.attributes.values(), element.text]
        left = list(
            dict.fromkeys(shorten(found, 40) for text in texts for found in _EXPRESSION.findall(text))
        )
        left += [name for name in element.attributes if name.startswith(XACRO_PREFIX)]
        if left:
            message = f"{', '.join(left)} in <{element.tag}> was not evaluated"
            yield error("xacro-unexpanded", kind, owner, message, "run xacro on it first", element.line)


def _with_owner(root: Element) -> Iterator[tuple[Element, Kind, str]]:
    """Yield elements with the link or joint they stand in; a xacro tag speaks for all below it."""
    robot = root.get("name") or "robot"
    stack: list[tuple[Element, Kind, str]] = [(root, Kind.ROBOT, robot)]
    while stack:
        element, kind, owner = stack.pop()
        yield element, kind, owner
        if element.tag in (f"{XACRO_PREFIX}macro", f"{XACRO_PREFIX}property"):
            continue
        below = []
        for child in element.children:
            if element is root and child.tag in ("link", "joint"):
                below.append((child, Kind(child.tag), child.get("name") or f"({child.tag} without a name)"))
            else:
                below.append((child, kind, owner))
        stack.extend(reversed(below))


def meshes(robot: RawRobot, finder: ResourceFinder) -> tuple[list[Finding], dict[str, F64]]:
    """Look for every mesh. Return the findings, one for each link and file, and the extents of those that
    were read.
    """
    findings: list[Finding] = []
    corners: dict[str, F64] = {}
    answers: dict[str, tuple[str, str, str] | None] = {}
    for link in robot.links:
        uses = Counter(
            shape.filename
            for shape in link.shapes
            if shape.filename and not _EXPRESSION.search(shape.filename)
        )
        for filename, count in uses.items():
            if filename not in answers:
                answers[filename] = _look(filename, finder, corners)
            answer = answers[filename]
            if answer is not None:
                rule, message, fix = answer
                line = next(shape.line for shape in link.shapes if shape.filename == filename)
                times = f" (used {count}×)" if count > 1 else ""
                findings.append(error(rule, Kind.LINK, link.name, message + times, fix, line))
    return findings, corners


def _look(filename: str, finder: ResourceFinder, corners: dict[str, F64]) -> tuple[str, str, str] | None:
    resolution = finder.resolve(filename)
    if resolution.path is None:
        rule = "mesh-case" if "letter case" in resolution.why else "mesh-missing"
        fix = "put the file there or mend the path; relative paths start at the description"
        return rule, f"mesh {filename!r}: {resolution.why}", fix
    mesh = read_mesh(resolution.path)
    if mesh.complaint is not None:
        return "mesh-unreadable", f"mesh {filename!r} {mesh.complaint}", "export the mesh again"
    if mesh.corners is not None:
        corners[filename] = mesh.corners
    return None


def mesh_sizes(robot: RawRobot, corners: dict[str, F64]) -> Iterator[Finding]:
    """Find meshes that are metres large because their millimetres were not scaled."""
    for link in robot.links:
        seen = set()
        for shape in link.shapes:
            extent = corners.get(shape.filename or "")
            if extent is None or shape.numbers is None or shape.filename in seen:
                continue
            seen.add(shape.filename)
            size = float(abs((extent[1] - extent[0]) * shape.numbers).max())
            if size > _MESH_MAX_M:
                message = f"mesh {shape.filename!r} is {size:.3g} m large"
                fix = 'add scale="0.001 0.001 0.001" if it is in millimetres'
                yield warning("mesh-size", Kind.LINK, link.name, message, fix, shape.line)


def shape_sizes(robot: RawRobot) -> Iterator[Finding]:
    """Find boxes, cylinders and spheres of size zero or less, and meshes scaled to nothing."""
    for link in robot.links:
        for shape in link.shapes:
            if shape.numbers is None or shape.type is None:
                continue
            sizes = (
                [abs(value) for value in shape.numbers]
                if shape.type is ShapeType.MESH
                else list(shape.numbers)
            )
            if min(sizes) <= 0.0:
                written = " ".join(f"{value:g}" for value in shape.numbers)
                message = f"<{shape.use}> {shape.type.value} of size {written}"
                yield error(
                    "geometry-size", Kind.LINK, link.name, message, "write sizes above 0, m", shape.line
                )


def unknown_references(root: Element, robot: RawRobot) -> Iterator[Finding]:
    """Find transmissions, ros2_control joints and gazebo tags that name no link or joint of the file."""
    joints = {joint.name for joint in robot.joints}
    everything = joints | {link.name for link in robot.links}
    for element in root.children:
        if element.tag in ("transmission", "ros2_control"):
            for inner in element.walk():
                name = inner.get("name")
                if inner.tag == "joint" and name and name not in joints and not _EXPRESSION.search(name):
                    message = f"<{element.tag}> names the joint {name!r}, which does not exist"
                    fix = "name a joint of this file"
                    yield error("reference-unknown", Kind.JOINT, name, message, fix, inner.line)
        elif element.tag == "gazebo":
            name = element.get("reference")
            if name and name not in everything and not _EXPRESSION.search(name):
                message = "<gazebo reference> names no link or joint of this file"
                fix = "name a link or joint of this file"
                yield warning("reference-unknown", Kind.ROBOT, name, message, fix, element.line)


def duplicate_materials(root: Element) -> Iterator[Finding]:
    """Find materials defined twice at the top level; urdfdom refuses the file."""
    seen: set[str] = set()
    for element in root.all("material"):
        name = element.get("name")
        if name in seen:
            message, fix = f"material {name!r} is defined twice", "remove one"
            yield error(
                "material-duplicate", Kind.ROBOT, root.get("name") or "robot", message, fix, element.line
            )
        elif name:
            seen.add(name)


RULES = (shape_sizes,)
