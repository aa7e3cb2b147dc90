"""Types of `<param value=…>`, as launch 3.4 and launch_ros 0.26 infer them."""

from __future__ import annotations

from typing import TypeVar

import yaml

from tether.brief import brief
from tether.config import YAML_DAMAGE
from tether.launch.errors import SubstitutionError
from tether.launch.model import ParameterData, ParameterScalar
from tether.launch.substitution import Scope, Template

_S = TypeVar("_S", bound=ParameterScalar)
TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def evaluate(name: str, text: str, template: Template, type_name: str | None, scope: Scope) -> ParameterData:
    """Return the typed value of a parameter; raise SubstitutionError naming it.

    Without a type the value after substitution is read as YAML: `1` is an integer, `1.0` a float, `[a, b]` a
    list of strings. launch also reads the text *before* substitution as YAML, so quotes or brackets around a
    substitution mean something else there than they seem to; such texts are refused.
    """
    expanded = template.expand(scope)
    if type_name is not None:
        return _typed(name, expanded, type_name)
    if not template.is_text and _yaml(name, text) != text:
        raise SubstitutionError(
            f"parameter '{name}': {text!r} mixes YAML with substitutions; put the whole value into a <let> "
            "and use $(var …) alone, or give a type"
        )
    if expanded == "":
        return ""
    return _uniform(name, _yaml(name, expanded))


def _yaml(name: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except YAML_DAMAGE as error:
        raise SubstitutionError(f"parameter '{name}': {text!r} is not YAML: {error}") from None


def _typed(name: str, text: str, type_name: str) -> ParameterScalar:
    kind = TYPES[type_name]
    if kind is str:
        return text
    value: object
    if kind is bool:
        value = _yaml(name, {"1": "true", "0": "false"}.get(text, text))
    else:
        try:
            value = kind(text)
        except ValueError:
            value = None
    if isinstance(value, kind) and isinstance(value, (bool, int, float)):
        return _within(name, value)
    raise SubstitutionError(f"parameter '{name}': {text!r} is not of type {type_name}")


def _within(name: str, value: _S) -> _S:
    """Return a value that ROS has a place for: its integers have 64 bits, one of them the sign."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise SubstitutionError(
            f"parameter '{name}': {brief(value)} is no integer of ROS; expected -2**63 to 2**63 - 1"
        )
    return value


def _uniform(name: str, value: object) -> ParameterData:
    if isinstance(value, (bool, int, float, str)):
        return _within(name, value)
    if isinstance(value, list) and value:
        kinds = {type(item) for item in value}
        if len(kinds) == 1 and kinds <= set(TYPES.values()):
            return [_within(name, item) for item in value]
    raise SubstitutionError(
        f"parameter '{name}': {brief(value)} is no ROS parameter; expected bool, int, float, str or a list of one "
        'of them that is not empty (for a text that looks like something else write type="str")'
    )
