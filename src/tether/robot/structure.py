"""Rules on the tree of links and joints: names that repeat, links that are missing, roots, cycles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tether.robot.findings import Finding, Kind, Rule, error
from tether.robot.raw import RawRobot


def duplicate_names(robot: RawRobot) -> Iterator[Finding]:
    """Find links or joints of one name; urdfdom refuses the file."""
    for kind, things in robot.named():
        seen: dict[str, int] = {}
        for thing in things:
            if thing.name in seen and thing.name:
                message = f"another {kind.value} of this name stands on line {seen[thing.name]}"
                yield error(Rule.NAME_DUPLICATE, kind, thing.name, message, "rename one of the two", thing.line)
            seen.setdefault(thing.name, thing.line)


def missing_names(robot: RawRobot) -> Iterator[Finding]:
    """Find a robot, links or joints without a name."""
    if not robot.name:
        yield error(Rule.NAME_MISSING, Kind.ROBOT, "robot", "<robot> has no name", 'add name="…"', 1)
    for kind, things in robot.named():
        for index, thing in enumerate(things):
            if not thing.name:
                subject, message = f"({kind.value} {index + 1})", f"<{kind.value}> has no name"
                yield error(Rule.NAME_MISSING, kind, subject, message, 'add name="…"', thing.line)


def missing_links(robot: RawRobot) -> Iterator[Finding]:
    """Find joints whose parent or child is no link of the file."""
    known = {link.name for link in robot.links}
    for joint in robot.joints:
        for role, name in (("parent", joint.parent), ("child", joint.child)):
            if name is not None and name not in known:
                near = next((link for link in known if link.lower() == name.lower()), None)
                fix = f"write {near!r}" if near else "add the link or mend the name"
                yield error(
                    Rule.LINK_MISSING,
                    Kind.JOINT,
                    joint.name,
                    f"its {role} link {name!r} does not exist",
                    fix,
                    joint.line,
                )


def several_parents(robot: RawRobot) -> Iterator[Finding]:
    """Find links that are the child of more than one joint: URDF is a tree."""
    parents: dict[str, list[str]] = defaultdict(list)
    for joint in robot.joints:
        if joint.child is not None:
            parents[joint.child].append(joint.name)
    for link in robot.links:
        joints = parents.pop(link.name, [])
        if len(joints) > 1:
            message = f"is the child of {len(joints)} joints: {', '.join(joints)}"
            fix = "keep one; URDF cannot close a loop"
            yield error(Rule.LINK_PARENTS, Kind.LINK, link.name, message, fix, link.line)


def cycles(robot: RawRobot) -> Iterator[Finding]:
    """Find rings of joints. One finding a ring, on the link of it that stands first in the file."""
    parent_of = _parents(robot)
    order = {link.name: (index, link.line) for index, link in reversed(list(enumerate(robot.links)))}
    seen: set[str] = set()
    for link in robot.links:
        path: dict[str, None] = {}
        here: str | None = link.name
        while here is not None and here not in path and here not in seen:
            path[here] = None
            here = parent_of.get(here)
        if here is not None and here in path:
            walked = list(path)
            ring = walked[walked.index(here) :]
            first = min(ring, key=lambda name: order[name])
            message = f"is its own ancestor: {' ← '.join([*ring, ring[0]])}"
            yield error(Rule.LINK_CYCLE, Kind.LINK, first, message, "break the ring of joints", order[first][1])
        seen.update(path)


def roots(robot: RawRobot) -> Iterator[Finding]:
    """Find an empty robot, and links that hang nowhere: a robot has one root.

    The first root with links below it is taken for the true one; every other is a fault.
    """
    if not robot.links:
        yield error(Rule.ROBOT_EMPTY, Kind.ROBOT, robot.name or "robot", "holds no link", "add at least one <link>", 1)
        return
    parent_of = _parents(robot)
    names = list(dict.fromkeys(link.name for link in robot.links))
    tops = [name for name in names if name not in parent_of]
    if len(tops) < 2:
        return
    below = Counter(_tops(names, parent_of).values())
    main = next((top for top in tops if below[top] > 1), tops[0])
    lines = {link.name: link.line for link in reversed(robot.links)}
    for top in tops:
        if top == main:
            continue
        alone = below[top] == 1
        carries = "no joint names it" if alone else f"it and the {below[top] - 1} below it hang nowhere"
        rule = Rule.LINK_UNCONNECTED if alone else Rule.ROOT_SEVERAL
        fix = f"connect it by a joint to the tree of {main!r}" + (" or remove it" if alone else "")
        yield error(rule, Kind.LINK, top, f"is a second root beside {main!r}: {carries}", fix, lines[top])


def _parents(robot: RawRobot) -> dict[str, str]:
    """Return child → parent over links that exist, the first joint winning where there are several."""
    known = {link.name for link in robot.links}
    parents: dict[str, str] = {}
    for joint in robot.joints:
        if joint.parent in known and joint.child in known and joint.parent is not None and joint.child is not None:
            parents.setdefault(joint.child, joint.parent)
    return parents


def _tops(names: Iterable[str], parent_of: dict[str, str]) -> dict[str, str | None]:
    """Return the root above each link; None where it hangs in a ring."""
    tops: dict[str, str | None] = {}
    for name in names:
        path: dict[str, None] = {}
        here = name
        while here in parent_of and here not in tops and here not in path:
            path[here] = None
            here = parent_of[here]
        top = tops.get(here, None if here in path else here)
        tops.update(dict.fromkeys((*path, name), top))
    return tops


RULES = (duplicate_names, missing_names, missing_links, several_parents, cycles, roots)
