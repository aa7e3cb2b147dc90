"""Rules on names: what ROS, TF and simulators take badly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tether.robot.findings import Finding, Rule, error, warning
from tether.robot.raw import RawRobot

_GOOD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPRESSION = re.compile(r"\$[({]")


def awkward_names(robot: RawRobot) -> Iterator[Finding]:
    """Find names with characters outside letters, digits and underscore.

    TF refuses frames that begin with a slash (error); ROS topics and USD prims (Isaac Sim)
    take letters, digits and underscores only, and no digit first (warning).
    """
    for kind, things in robot.named():
        for name, line in {thing.name: thing.line for thing in reversed(things)}.items():
            if not name or _GOOD.fullmatch(name) or _EXPRESSION.search(name):
                continue
            if name.startswith("/"):
                fix = f"write {name.lstrip('/')!r}"
                yield error(Rule.NAME_CHARACTERS, kind, name, "begins with a slash, which TF refuses", fix, line)
            elif name != name.strip():
                fix = f"write {name.strip()!r}"
                yield error(Rule.NAME_CHARACTERS, kind, name, "begins or ends with a space", fix, line)
            else:
                message = f"has {_what_is_wrong(name)}"
                fix = "use letters, digits and _, a letter first: ROS topics and USD prims take no others"
                yield warning(Rule.NAME_CHARACTERS, kind, name, message, fix, line)


def _what_is_wrong(name: str) -> str:
    strange = sorted(set(re.findall(r"[^A-Za-z0-9_]", name)))
    parts = [f"{' '.join(repr(character) for character in strange)}"] if strange else []
    if name[0].isdigit():
        parts.append("a digit first")
    return " and ".join(parts)


RULES = (awkward_names,)
