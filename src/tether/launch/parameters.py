"""Types of `<param value=…>`, as launch 3.4 and launch_ros 0.26 infer them."""

from __future__ import annotations

import yaml

from tether.brief import brief
from tether.launch.errors import SubstitutionError
from tether.launch.model import ParameterData, ParameterScalar
from tether.launch.substitution import Scope, Template

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
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: the 13th month, huge numbers
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
        return value
    raise SubstitutionError(f"parameter '{name}': {text!r} is not of type {type_name}")


def _uniform(name: str, value: object) -> ParameterData:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list) and value:
        kinds = {type(item) for item in value}
        if len(kinds) == 1 and kinds <= set(TYPES.values()):
            return value
    raise SubstitutionError(
        f"parameter '{name}': {brief(value)} is no ROS parameter; expected bool, int, float, str or a list of one "
        'of them that is not empty (for a text that looks like something else write type="str")'
    )
