"""Check a robot description and list every fault at once.

Each rule is a pure function over the parsed description; this module only brings them together. A file that
does not get as far as a <robot> element is not checkable, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tether.robot import elements, inertia, joints, naming, references, sizes, structure
from tether.robot.description import XACRO_PREFIX, expand_xacro
from tether.robot.findings import Finding, Kind, Rule, Severity, error, warning
from tether.robot.raw import RawRobot, read_robot
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import (
    Element,
    UnreadableError,
    XmlText,
    parse_but_for_declaration,
    parse_xml,
    read_xml_text,
)

_SRDF_TAGS = frozenset({"group", "group_state", "disable_collisions", "end_effector", "virtual_joint", "passive_joint"})
_MACROS_SHOWN = 4
_PLAIN_RULES = (*joints.RULES, *inertia.RULES, *sizes.RULES, *naming.RULES, *references.RULES)


class Status(IntEnum):
    """Outcome of a check; the number is the exit status of the command."""

    CLEAN = 0
    """No error. There may be warnings."""
    FAULTS = 1
    """At least one error."""
    NOT_CHECKABLE = 2
    """The file does not get as far as a <robot> element."""


@dataclass(frozen=True)
class Report:
    """Result of a check. findings: errors before warnings, then in file order. links, joints, moving: counts.

    expanded: whether the findings are about the text that xacro made of the file; they then have no line.
    """

    path: Path
    status: Status
    findings: tuple[Finding, ...]
    robot: str | None = None
    links: int = 0
    joints: int = 0
    moving: int = 0
    expanded: bool = False

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return len(self.findings) - self.errors


def check_file(
    path: str | Path,
    package_paths: Sequence[Path] = (),
    expand_by: Callable[[Path, Sequence[Path]], str] = expand_xacro,
) -> Report:
    """Check a .urdf or .xacro file. Never raises for what is in the file. expand_by: what runs xacro.

    A file named .xacro is expanded and the result checked. In a file not so named, xacro is a fault by
    itself; what it expands to is checked all the same, where it can be expanded.
    """
    path = Path(path)
    finder = ResourceFinder.beside(path, package_paths)
    found: list[Finding] = []
    try:
        source = read_xml_text(path)
        found += _encoding(path, source)
        root, flaw = parse_but_for_declaration(source.text)
        if flaw is not None:
            found.append(error(flaw.rule, Kind.FILE, path.name, str(flaw), flaw.fix, flaw.line))
        root = _robot_element(root)
        meant_as_xacro = path.suffix.lower() == ".xacro"
        left = list(references.unexpanded_xacro(root))
        if meant_as_xacro:
            macros = [child.get("name") or "?" for child in root.walk() if child.tag == "xacro:macro"]
            root = _robot_element(parse_xml(expand_by(path, package_paths)))
            _refuse_part(root, macros)
            left = list(references.unexpanded_xacro(root))
        found += left
    except UnreadableError as reason:
        found.append(error(reason.rule, Kind.FILE, path.name, str(reason), reason.fix, reason.line))
        return Report(path, Status.NOT_CHECKABLE, tuple(found))
    expanded = meant_as_xacro
    tree_complete = True
    if left and not meant_as_xacro:
        try:
            root = _robot_element(parse_xml(expand_by(path, package_paths)))
            expanded = True
        except UnreadableError as reason:
            found.append(error(reason.rule, Kind.FILE, path.name, str(reason), reason.fix, reason.line))
            tree_complete = not any(element.tag.startswith(XACRO_PREFIX) for element in root.walk())
    robot = read_robot(root)
    fresh = check_robot(robot, root, finder, tree_complete)
    found += [_without_line(finding) for finding in fresh] if expanded else fresh
    found.sort(key=lambda finding: finding.severity is Severity.WARNING)  # stable: file order within each
    status = Status.FAULTS if found and found[0].severity is Severity.ERROR else Status.CLEAN
    moving = sum(joint.moves for joint in robot.joints)
    return Report(path, status, tuple(found), robot.name, len(robot.links), len(robot.joints), moving, expanded)


def check_robot(robot: RawRobot, root: Element, finder: ResourceFinder, tree_complete: bool = True) -> list[Finding]:
    """Apply every rule. tree_complete: False where macros still hide links; the tree is not judged then."""
    found = list(robot.findings)
    if tree_complete:
        for rule in structure.RULES:
            found += rule(robot)
        found += elements.unknown_references(root, robot)
    for rule in _PLAIN_RULES:
        found += rule(robot)
    for rule_on_tree in elements.RULES:
        found += rule_on_tree(root)
    of_meshes, corners = references.meshes(robot, finder)
    found += of_meshes
    found += references.mesh_sizes(robot, corners)
    found += sizes.inertia_against_size(robot, corners)
    found.sort(key=lambda finding: finding.line or 0)
    return found


def _robot_element(root: Element) -> Element:
    if root.tag == "robot":
        tags = {child.tag for child in root.children}
        if tags & _SRDF_TAGS and not tags & {"link", "joint"}:
            what = "is an SRDF (groups of joints and collisions to pass over, for MoveIt), which describes no robot"
            raise UnreadableError(Rule.NOT_URDF, what, "name the URDF or xacro file that it belongs to", root.line)
        return root
    known = {
        "sdf": "SDFormat",
        "mujoco": "MJCF (MuJoCo)",
        "launch": "a launch file",
        "package": "a package manifest",
    }
    what = f", which is {known[root.tag]}" if root.tag in known else ""
    raise UnreadableError(
        Rule.NOT_URDF,
        f"its outermost element is <{root.tag}>{what}, not <robot>",
        "name a URDF or xacro file",
        root.line,
    )


def _refuse_part(root: Element, macros: Sequence[str]) -> None:
    """Refuse xacro that builds nothing by itself: there is no robot to judge yet."""
    if {child.tag for child in root.children} & {"link", "joint"} or (root.get("name") and not macros):
        return
    shown = ", ".join(macros[:_MACROS_SHOWN]) + (", …" if len(macros) > _MACROS_SHOWN else "")
    what = f"; it defines {shown}" if macros else ""
    message = f"builds no link or joint, so it is a part that other files include{what}"
    raise UnreadableError(Rule.ROBOT_EMPTY, message, "check the file that includes it")


def _encoding(path: Path, source: XmlText) -> list[Finding]:
    if source.complaint is None:
        return []
    fix = "save the file as UTF-8: urdfdom and MuJoCo read nothing else"
    grade = warning if source.minor else error
    return [grade(Rule.ENCODING, Kind.FILE, path.name, source.complaint, fix)]


def _without_line(finding: Finding) -> Finding:
    return Finding(finding.rule, finding.severity, finding.kind, finding.subject, finding.message, finding.fix, None)
