"""Which tags and attributes a launch file may have; anything else is a fault with its line.

The subset of what `launch_xml` and `launch_ros` of Jazzy accept; nothing here is an invention of ours, so a
file that passes is one that `ros2 launch` takes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tether.launch.errors import Fault
from tether.launch.parameters import TYPES
from tether.launch.xmltree import Element

_CONDITION = frozenset({"if", "unless"})
_ACTIONS = frozenset({"arg", "let", "set_env", "node", "include", "group"})


@dataclass(frozen=True)
class _Rule:
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()


_LEAF_PAIR = _Rule(required=frozenset({"name", "value"}))
_RULES: dict[tuple[str, str], _Rule] = {
    ("", "launch"): _Rule(children=_ACTIONS),
    ("arg", "choice"): _Rule(required=frozenset({"value"})),
    ("include", "arg"): _LEAF_PAIR,
    ("node", "env"): _LEAF_PAIR,
    ("node", "remap"): _Rule(required=frozenset({"from", "to"})),
    ("node", "param"): _Rule(optional=frozenset({"name", "value", "type", "from"})),
}
# actions stand below <launch> and <group> alike
_ACTION_RULES: dict[str, _Rule] = {
    "arg": _Rule(frozenset({"name"}), _CONDITION | {"default", "description"}, frozenset({"choice"})),
    "let": _Rule(frozenset({"name", "value"}), _CONDITION),
    "set_env": _Rule(frozenset({"name", "value"}), _CONDITION),
    "group": _Rule(frozenset(), _CONDITION, _ACTIONS),
    "include": _Rule(frozenset({"file"}), _CONDITION, frozenset({"arg"})),
    "node": _Rule(
        frozenset({"pkg", "exec"}),
        _CONDITION | {"name", "namespace", "args", "output", "on_exit", "sigterm_timeout", "sigkill_timeout"},
        frozenset({"param", "remap", "env"}),
    ),
}


def check(file: str, root: Element) -> list[Fault]:
    """Return every tag and attribute fault of the file, in file order."""
    if root.tag != "launch":
        return [Fault(file, root.line, f"the root tag is <{root.tag}>, expected <launch>")]
    return list(_check(file, root, _RULES["", "launch"]))


def prune(root: Element) -> set[str]:
    """Take out what has faults of its own, and no more, so that the rest can be looked at.

    Of a group, node or include that is what the schema does not know; an action goes as a whole only where nothing is
    sure without it. Returns the names of the variables that the actions gone would have set.
    """
    lost: set[str] = set()
    sound: list[Element] = []
    for child in root.children:
        if child.tag not in _ACTIONS:
            continue
        rule = _ACTION_RULES[child.tag]
        if child.tag == "group":
            lost |= prune(child)
        if child.tag in ("arg", "let", "set_env"):
            whole = next(_check("", child, rule), None) is None
        else:
            whole = _strip(child, rule)
        if whole:
            sound.append(child)
        elif child.tag in ("arg", "let"):
            lost.add(child.attributes.get("name", ""))
    root.children = sound
    return lost


def _strip(element: Element, rule: _Rule) -> bool:
    """Take out of a group, node or include what the schema does not know; False where it cannot be read then either."""
    allowed = rule.required | rule.optional
    element.attributes = {name: text for name, text in element.attributes.items() if name in allowed}
    if element.attributes.keys() >= _CONDITION:  # nobody knows whether it is wanted
        return False
    if element.tag == "node":
        element.children = [
            child
            for child in element.children
            if child.tag in rule.children and next(_own("", child, _RULES["node", child.tag]), None) is None
        ]
    elif element.tag == "include":
        element.children = [child for child in element.children if child.tag in rule.children]
        return "file" in element.attributes and all("name" in child.attributes for child in element.children)
    return True


def _check(file: str, element: Element, rule: _Rule) -> Iterator[Fault]:
    yield from _own(file, element, rule)
    for child in element.children:
        if child.tag not in rule.children:
            yield Fault(file, child.line, f"unknown tag <{child.tag}> in <{element.tag}>; {_list(rule.children)}")
            continue
        below_action = (element.tag, child.tag) in _RULES
        yield from _check(file, child, _RULES[element.tag, child.tag] if below_action else _ACTION_RULES[child.tag])


def _own(file: str, element: Element, rule: _Rule) -> Iterator[Fault]:
    """Faults of the element itself, its children left aside."""
    allowed = rule.required | rule.optional
    for name in element.attributes:
        if name not in allowed:
            yield Fault(file, element.line, f"<{element.tag}> has an unknown attribute '{name}'; {_list(allowed)}")
    for name in sorted(rule.required - element.attributes.keys()):
        yield Fault(file, element.line, f"<{element.tag}> lacks its attribute '{name}'")
    yield from (Fault(file, element.line, message) for message in _pairs(element))


def _pairs(element: Element) -> Iterator[str]:
    """Yield faults of attributes that only make sense together, or not together."""
    attributes = element.attributes
    if "if" in attributes and "unless" in attributes:
        yield f"<{element.tag}> has both 'if' and 'unless'; use one"
    if element.tag == "param":
        if "from" in attributes and len(attributes) > 1:
            yield "<param from=…> takes no other attribute"
        elif "from" not in attributes and not {"name", "value"} <= attributes.keys():
            yield "<param> needs 'name' and 'value', or 'from'"
        if attributes.get("type", "str") not in TYPES:
            yield f"<param> has type '{attributes['type']}'; expected one of {', '.join(TYPES)}"
    if element.tag in ("arg", "let", "set_env", "env") and "$(" in attributes.get("name", ""):
        yield f"the name of <{element.tag}> must be plain text"
    elif element.tag in ("set_env", "env") and "name" in attributes:
        name = attributes["name"]
        if not name or "=" in name:
            yield f"<{element.tag}> has the name '{name}'; an environment variable has one, without '='"


def _list(names: frozenset[str]) -> str:
    return f"allowed: {', '.join(sorted(names))}" if names else "none are allowed"
