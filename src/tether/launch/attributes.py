"""What single attributes of launch actions mean."""

from __future__ import annotations

import re

from tether.launch.errors import SubstitutionError
from tether.launch.model import Output
from tether.launch.xmltree import Element

_NODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
    if name is not None and not _NODE_NAME.fullmatch(name):
        raise SubstitutionError(f"node name '{name}' must be letters, digits and '_', not starting with a digit")
    return name


def namespace(text: str | None) -> str | None:
    """Return a namespace with its slash in front, if there is one."""
    if text is None:
        return None
    absolute = text if text.startswith("/") else f"/{text}"
    return absolute if absolute == "/" else absolute.rstrip("/")


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
