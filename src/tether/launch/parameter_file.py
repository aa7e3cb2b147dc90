"""Whether rcl takes a file of `<param from=…>`: it would refuse it in every node, without a word of the launch file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tether.brief import brief
from tether.launch.errors import SubstitutionError

PARAMETERS = "ros__parameters"
_PART = r"(\*\*?|[A-Za-z_][A-Za-z0-9_]*)"
_NODE = re.compile(rf"/|/?{_PART}(/{_PART})*")
"""A namespace, a node's name, both, or a pattern of them."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where there is: rcl reads with that


@dataclass
class _Open:
    """A table or list that is open. parameters: it stands in ros__parameters; key: whose value comes next."""

    is_list: bool
    parameters: bool
    key: str | None = None


def require_parameter_file(path: Path) -> None:
    """Raise SubstitutionError, with the line in the file, where rcl does not read it.

    Its parts are looked at one by one and never put together, so that no file can come to more than it is.
    """
    if not path.is_file():
        raise SubstitutionError(f"parameter file '{path}' does not exist")
    try:
        fault = _first_fault(yaml.parse(path.read_bytes(), Loader=_LOADER))
    except OSError as error:
        raise SubstitutionError(f"parameter file '{path}' cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or brief(str(error))
        fault = (mark.line if mark else 0, f"not YAML: {what}")
    if fault is not None:
        line, what = fault
        raise SubstitutionError(f"parameter file '{path}', line {line + 1}: {what}")


def _first_fault(events: Iterable[yaml.Event]) -> tuple[int, str] | None:
    """Line (from 0) and what is wrong there."""
    stack: list[_Open] = []
    for event in events:
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            what = _take(event, stack)
            if what is not None:
                return (event.start_mark.line if event.start_mark else 0), what
    return None


def _take(event: yaml.NodeEvent, stack: list[_Open]) -> str | None:
    """Take a key or the beginning of a value; what is wrong with it."""
    above = stack[-1] if stack else None
    if isinstance(event, yaml.AliasEvent):
        return f"ROS reads no aliases (*{event.anchor})"
    if above is not None and not above.is_list and above.key is None:
        above.key = event.value if isinstance(event, yaml.ScalarEvent) else ""
        return _key_fault(above, is_top=len(stack) == 1)
    key = None if above is None else above.key
    parameters = above is not None and (above.parameters or key == PARAMETERS)
    if above is not None:
        above.key = None
        if not isinstance(event, yaml.MappingStartEvent) and (not parameters or _begins(above, key)):
            return f"a value outside of {PARAMETERS}; expected NODE: {{{PARAMETERS}: {{NAME: VALUE}}}}"
    elif isinstance(event, yaml.SequenceStartEvent) or (isinstance(event, yaml.ScalarEvent) and event.value):
        return f"no table; expected NODE: {{{PARAMETERS}: {{NAME: VALUE}}}}"
    if isinstance(event, yaml.CollectionStartEvent):
        stack.append(_Open(isinstance(event, yaml.SequenceStartEvent), parameters))
    return None


def _begins(above: _Open, key: str | None) -> bool:
    return key == PARAMETERS and not above.parameters


def _key_fault(table: _Open, is_top: bool) -> str | None:
    key = table.key
    if not key:
        return "a key must be a name"
    if table.parameters:
        return None
    if key == PARAMETERS:
        return f"{PARAMETERS} stands under no node; expected NODE: {{{PARAMETERS}: …}}" if is_top else None
    return None if _NODE.fullmatch(key) else f"{brief(key)} is no name of a node or namespace"
