"""Rules on what a description points at: xacro that was never expanded, mesh files; and on shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tether.robot.description import XACRO_PREFIX
from tether.robot.extents import F64
from tether.robot.findings import Finding, Kind, Rule, error, warning
from tether.robot.meshes import read_mesh
from tether.robot.raw import RawRobot, ShapeType, shorten
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import Element

_EXPRESSION = re.compile(r"\$\{[^}]*\}?|\$\([^)]*\)?")
_MESH_MAX_M = 20.0
"""A mesh larger than this belongs to no robot of this world; it is in millimetres."""


def unexpanded_xacro(root: Element) -> Iterator[Finding]:
    """Find xacro tags, `${…}` and `$(…)` left in what should be plain URDF. One finding a tag."""
    for element, kind, owner in _with_owner(root):
        if element.tag.startswith(XACRO_PREFIX):
            name = element.get("name") or element.get("filename") or element.get("value")
            message = f"<{element.tag}{f' {shorten(name)!r}' if name else ''}> was not expanded"
            yield error(Rule.XACRO_UNEXPANDED, kind, owner, message, "run xacro on it first", element.line)
            continue
        texts = [*element.attributes.values(), element.text]
        left = list(dict.fromkeys(shorten(found, 40) for text in texts for found in _EXPRESSION.findall(text)))
        left += [name for name in element.attributes if name.startswith(XACRO_PREFIX)]
        if left:
            message = f"{', '.join(left)} in <{element.tag}> was not evaluated"
            yield error(Rule.XACRO_UNEXPANDED, kind, owner, message, "run xacro on it first", element.line)


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
    """Look for every mesh. Return findings, one a link and file, and the extents of the meshes read."""
    findings: list[Finding] = []
    corners: dict[str, F64] = {}
    answers: dict[str, tuple[Rule, str, str] | None] = {}
    for link in robot.links:
        uses = Counter(
            shape.filename for shape in link.shapes if shape.filename and not _EXPRESSION.search(shape.filename)
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


def _look(filename: str, finder: ResourceFinder, corners: dict[str, F64]) -> tuple[Rule, str, str] | None:
    resolution = finder.resolve(filename)
    if resolution.path is None:
        rule = Rule.MESH_CASE if resolution.case_differs else Rule.MESH_MISSING
        fix = "put the file there or mend the path; relative paths start at the description"
        return rule, f"mesh {filename!r}: {resolution.why}", fix
    mesh = read_mesh(resolution.path)
    if mesh.complaint is not None:
        return Rule.MESH_UNREADABLE, f"mesh {filename!r} {mesh.complaint}", "export the mesh again"
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
                yield warning(Rule.MESH_SIZE, Kind.LINK, link.name, message, fix, shape.line)


def shape_sizes(robot: RawRobot) -> Iterator[Finding]:
    """Find boxes, cylinders and spheres of size zero or less, and meshes scaled to nothing."""
    for link in robot.links:
        for shape in link.shapes:
            if shape.numbers is None or shape.type is None:
                continue
            sizes = [abs(value) for value in shape.numbers] if shape.type is ShapeType.MESH else list(shape.numbers)
            if min(sizes) <= 0.0:
                written = " ".join(f"{value:g}" for value in shape.numbers)
                message = f"<{shape.use}> {shape.type.value} of size {written}"
                yield error(Rule.GEOMETRY_SIZE, Kind.LINK, link.name, message, "write sizes above 0, m", shape.line)


RULES = (shape_sizes,)
