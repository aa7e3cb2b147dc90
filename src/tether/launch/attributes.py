"""What single attributes of launch actions mean."""

from __future__ import annotations

import re

from tether.launch.errors import SubstitutionError
from tether.launch.model import Output
from tether.launch.xmltree import Element

# what rcl takes for names in remap rules, of which it makes node names and namespaces too; `__` is its own
_TOKEN = r"(?!\w*__)[A-Za-z_][A-Za-z0-9_]*"
_NAME = rf"(~/|/)?{_TOKEN}(/{_TOKEN})*"
_NODE_NAME = re.compile(_TOKEN, re.ASCII)
_NAMESPACE = re.compile(rf"/|(/{_TOKEN})+/?", re.ASCII)
_REMAP_FROM = re.compile(rf"({_TOKEN}:)?(rostopic://|rosservice://)?(?P<name>{_NAME})", re.ASCII)
_REMAP_TO = re.compile(rf"(?P<name>{_NAME})", re.ASCII)
# of rmw: validate_node_name.h, validate_namespace.h, validate_full_topic_name.h
_MAX_NODE_NAME, _MAX_NAMESPACE, _MAX_TOPIC = 255, 245, 247
_WORDS = "letters, digits and single '_', not starting with a digit"
# variables by which launch and launch_ros steer themselves
_RESERVED = frozenset(
    [
        "ros_namespace",
        "ros_remaps",
        "global_params",
        "emulate_tty",
        "sigterm_timeout",
        "sigkill_timeout",
        "launch-prefix",
        "launch-prefix-filter",
    ]
)


def variable(element: Element) -> str:
    """Return the name of a variable that an action sets; raise SubstitutionError where launch means something by it."""
    name = element.attributes["name"]
    if name in _RESERVED:
        raise SubstitutionError(f"'{name}' is a name launch gives a meaning of its own; take another")
    return name


def node_name(name: str | None) -> str | None:
    """Return the name of a node, if there is one; raise SubstitutionError where ROS takes no such name."""
    if name is None:
        return None
    if not _NODE_NAME.fullmatch(name):
        raise SubstitutionError(f"node name '{name}' must be {_WORDS}")
    return _of_length(f"node name '{name}'", name, _MAX_NODE_NAME)


def namespace(text: str | None) -> str | None:
    """Return a namespace with a slash in front, if there is one; raise SubstitutionError where ROS takes none such."""
    if text is None:
        return None
    absolute = text if text.startswith("/") else f"/{text}"
    if not _NAMESPACE.fullmatch(absolute):
        raise SubstitutionError(f"namespace '{text}' must be names between single '/', each {_WORDS}")
    absolute = absolute if absolute == "/" else absolute.rstrip("/")
    return _of_length(f"namespace '{text}'", absolute, _MAX_NAMESPACE)


def remap(source: str, target: str) -> tuple[str, str]:
    """Return both sides of a remap rule; raise SubstitutionError, for both, where ROS takes no such names."""
    faults = []
    for side, text, pattern in (("from", source, _REMAP_FROM), ("to", target, _REMAP_TO)):
        found = pattern.fullmatch(text)
        if found is None:
            faults.append(f"remap {side} '{text}'")
        else:
            _of_length(f"remap {side} '{text}'", found["name"], _MAX_TOPIC)
    if faults:
        rule = f"names between single '/', each {_WORDS}; '/' or '~/' may stand in front"
        raise SubstitutionError(f"{' and '.join(faults)} must be {rule}")
    return source, target


def parameter_name(name: str) -> str:
    """Return the name of a parameter; raise SubstitutionError where it is empty or has space in it."""
    if not name or not name.isprintable() or any(character.isspace() for character in name):
        raise SubstitutionError(f"parameter name {name!r} must be text without spaces, and not empty")
    return name


def _of_length(what: str, name: str, most: int) -> str:
    if len(name) > most:
        raise SubstitutionError(f"{what} has {len(name)} characters; ROS takes up to {most}")
    return name


def output(text: str | None) -> Output:
    """Return where the lines of a process go; raise SubstitutionError."""
    if text is None:
        return Output.LOG
    try:
        return Output(text)
    except ValueError:
        expected = ", ".join(output.value for output in Output)
        raise SubstitutionError(f"output '{text}' is not supported; expected {expected}") from None


def on_exit(text: str | None) -> bool:
    """Return whether the end of a process ends the launch; raise SubstitutionError."""
    if text not in (None, "shutdown"):
        raise SubstitutionError(f"on_exit '{text}' is not supported; expected shutdown")
    return text is not None


def seconds(name: str, element: Element) -> float | None:
    """Read a plain number; launch itself cannot take a substitution here."""
    text = element.attributes.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise SubstitutionError(f"{name} '{text}' must be a plain number of seconds, 0 or more")
    return seconds
