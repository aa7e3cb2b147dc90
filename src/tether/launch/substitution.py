"""Substitutions `$(…)` of launch attributes: the part of `launch`'s grammar that our files use.

Text outside `$(…)` stands for itself. Inside, a name is followed by arguments parted by one space each; an
argument is a word (which may hold further substitutions) or 'single quoted text'. Backslash escapes and
double quotes inside `$(…)` mean different things to different readers, so they are refused.

Meanings are those of launch 3.4 (Jazzy): `launch/substitutions/*.py`, `launch_ros/substitutions/*.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tether.launch import ament
from tether.launch.errors import FollowUpError, PackageNotFoundError, SubstitutionError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
MAX_LENGTH = 65_536
"""Characters of a value, written or substituted: variables that double themselves end here."""
_MAX_NESTING = 32
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Scope:
    """What a substitution may look at: variables, environment and the launch file's folder.

    failed, failed_env: those whose value could not be told, which is a fault already.
    """

    variables: Mapping[str, str]
    env: Mapping[str, str]
    folder: Path
    failed: Set[str] = frozenset()
    failed_env: Set[str] = frozenset()


@dataclass(frozen=True)
class Call:
    """One `$(name argument …)`; each argument is a template of its own."""

    name: str
    arguments: tuple[Template, ...]


@dataclass(frozen=True)
class Template:
    """Text and substitutions in order."""

    parts: tuple[str | Call, ...]

    @property
    def is_text(self) -> bool:
        """True when there is nothing to substitute."""
        return all(isinstance(part, str) for part in self.parts)

    def expand(self, scope: Scope) -> str:
        """Return the text with every substitution resolved; raise SubstitutionError."""
        pieces: list[str] = []
        length = 0
        for part in self.parts:
            pieces.append(part if isinstance(part, str) else _call(part, scope))
            length += len(pieces[-1])
            if length > MAX_LENGTH:
                raise SubstitutionError(f"the value grows beyond {MAX_LENGTH} characters")
        text = "".join(pieces)
        if "\0" in text:  # an argument's: XML has none
            raise SubstitutionError(f"the value {text!r} has a NUL, which no process can be given")
        return text

    def words(self) -> list[Template]:
        """Split at white space of the text; a substitution stays whole and within its word."""
        words: list[list[str | Call]] = [[]]
        for part in self.parts:
            pieces = [part] if isinstance(part, Call) else re.split(r"(\s+)", part)
            for piece in pieces:
                if isinstance(piece, str) and not piece.strip():
                    if piece:
                        words.append([])
                    continue
                words[-1].append(piece)
        return [Template(tuple(word)) for word in words if word]

    def names(self) -> set[str]:
        """Return the names of all substitutions used, nested ones too."""
        found: set[str] = set()
        for part in self.parts:
            if isinstance(part, Call):
                found.add(part.name)
                for argument in part.arguments:
                    found |= argument.names()
        return found


def parse(text: str) -> Template:
    """Return the template of an attribute's text; raise SubstitutionError saying where it broke."""
    if len(text) > MAX_LENGTH:
        raise SubstitutionError(f"a value of {len(text)} characters; at most {MAX_LENGTH} are taken")
    if "\\" in text:
        raise SubstitutionError(f"{text!r}: backslash escapes are not supported; write the character itself")
    parts: list[str | Call] = []
    position = 0
    while position < len(text):
        start = text.find("$(", position)
        if start < 0:
            parts.append(text[position:])
            break
        if start > position:
            parts.append(text[position:start])
        call, position = _parse_call(text, start, 1)
        parts.append(call)
    return Template(tuple(parts))


def _parse_call(text: str, start: int, depth: int) -> tuple[Call, int]:
    """Parse the `$(…)` at `start`; return it and the position after its `)`."""
    if depth > _MAX_NESTING:
        raise SubstitutionError(f"substitutions are nested more than {_MAX_NESTING} deep")
    match = _NAME.match(text, start + 2)
    if match is None:
        raise SubstitutionError(f"{text!r}: a substitution's name must follow '$(' at column {start + 1}")
    arguments: list[Template] = []
    position = match.end()
    while text[position : position + 1] == " ":
        argument, position = _parse_argument(text, position + 1, depth)
        arguments.append(argument)
    if text[position : position + 1] != ")":
        got = text[position : position + 1] or "the end of the text"
        raise SubstitutionError(
            f"{text!r}: expected one space and an argument, or ')', at column {position + 1}, got {got!r}"
        )
    call = Call(match.group(), tuple(arguments))
    _check(call)
    return call, position + 1


def _parse_argument(text: str, start: int, depth: int) -> tuple[Template, int]:
    if text[start : start + 1] == "'":
        end = text.find("'", start + 1)
        if end < 0:
            raise SubstitutionError(f"{text!r}: the quote at column {start + 1} is not closed")
        quoted = text[start + 1 : end]
        if "$(" in quoted:
            raise SubstitutionError(f"{text!r}: a substitution inside quotes is not supported")
        return Template((quoted,)), end + 1
    parts: list[str | Call] = []
    position = start
    while position < len(text) and text[position] not in " )":
        if text.startswith("$(", position):
            call, position = _parse_call(text, position, depth + 1)
            parts.append(call)
            continue
        match = re.compile(r"""[^ ()'"$]+|\$(?!\()""").match(text, position)
        if match is None:
            raise SubstitutionError(
                f"{text!r}: {text[position]!r} at column {position + 1} is not allowed without quotes"
            )
        parts.append(match.group())
        position = match.end()
    if not parts:
        raise SubstitutionError(f"{text!r}: an argument is missing at column {start + 1}")
    return Template(tuple(parts)), position


def condition(text: str) -> bool:
    """Return the truth of an `if`/`unless` text: true, 1, false or 0 in any case, as `launch` has it."""
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise SubstitutionError(f"{text!r} is no condition; expected true, 1, false or 0") from None


def _var(scope: Scope, name: str) -> str:
    if name in scope.failed:
        raise FollowUpError(f"$(var {name}): its value could not be told")
    if name in scope.variables:
        return scope.variables[name]
    known = ", ".join(sorted(scope.variables)) or "none"
    raise SubstitutionError(f"$(var {name}): no such argument or variable; known here: {known}")


def _env(scope: Scope, name: str, default: str | None = None) -> str:
    if name in scope.failed_env:
        raise FollowUpError(f"$(env {name}): its value could not be told")
    value = scope.env.get(name, default)
    if value is None:
        raise SubstitutionError(f"$(env {name}): the environment has no {name}; set it or give a default")
    return value


def _share(scope: Scope, package: str) -> str:
    try:
        return str(ament.find_package_share(package, scope.env))
    except PackageNotFoundError as error:
        raise SubstitutionError(f"$(find-pkg-share {package}): {error}") from None


def _boolean(name: str, text: str) -> bool:
    # launch coerces these arguments by YAML's rules and also takes 1 and 0; words such as "on" and "yes"
    # read differently by eye and by YAML, so only the four plain ones are taken.
    if text not in ("true", "True", "1", "false", "False", "0"):
        raise SubstitutionError(f"$({name} …): {text!r} is not a truth value; expected true, false, 1 or 0")
    return condition(text)


def _equals(_: Scope, left: str, right: str) -> str:
    if left.lower() in _BOOLEANS and right.lower() in _BOOLEANS:
        return _word(_BOOLEANS[left.lower()] == _BOOLEANS[right.lower()])
    try:
        return _word(math.isclose(float(left), float(right)))
    except ValueError:
        return _word(left == right)


def _word(value: bool) -> str:
    return "true" if value else "false"


# name → (least and most arguments, meaning)
_SUBSTITUTIONS: dict[str, tuple[int, int, Callable[..., str]]] = {
    "var": (1, 1, _var),
    "env": (1, 2, _env),
    "find-pkg-share": (1, 1, _share),
    "dirname": (0, 0, lambda scope: str(scope.folder)),
    "equals": (2, 2, _equals),
    "not": (1, 1, lambda _, value: _word(not _boolean("not", value))),
    "and": (2, 2, lambda _, a, b: _word(_boolean("and", a) and _boolean("and", b))),
    "or": (2, 2, lambda _, a, b: _word(_boolean("or", a) or _boolean("or", b))),
}


def _check(call: Call) -> None:
    if call.name not in _SUBSTITUTIONS:
        known = ", ".join(_SUBSTITUTIONS)
        raise SubstitutionError(f"substitution '$({call.name} …)' is not supported; supported: {known}")
    least, most, _ = _SUBSTITUTIONS[call.name]
    if not least <= len(call.arguments) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise SubstitutionError(f"$({call.name} …) takes {expected} arguments, got {len(call.arguments)}")
    if call.name == "equals" and any(argument.parts in ((), ("",)) for argument in call.arguments):
        raise SubstitutionError("$(equals …) with '' is never true in launch 3.4; compare with a word")


def _call(call: Call, scope: Scope) -> str:
    meaning = _SUBSTITUTIONS[call.name][2]
    return meaning(scope, *(argument.expand(scope) for argument in call.arguments))
