"""From a .urdf or .xacro file to URDF text, without a ROS installation."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree.ElementTree import canonicalize
from xml.parsers import expat

from tether.errors import Fault, InvalidInputError
from tether.robot.expressions import ForbiddenExpressionError
from tether.robot.findings import Rule
from tether.robot.guarded_xacro import guarded_xacro
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import Element, UnreadableError, parse_xml, read_xml_text

# The xacro package keeps its file stack, arguments and verbosity in module globals: one expansion at a time.
_XACRO_LOCK = threading.Lock()

XACRO_PREFIX = "xacro:"
_TRUST_FIX = "if you would let its authors run code here, expand it with xacro by hand and check the result"


def is_xacro(root: Element) -> bool:
    """Return whether a file uses xacro: declares its namespace, or holds a `xacro:` tag or attribute."""
    return "xmlns:xacro" in root.attributes or any(
        element.tag.startswith(XACRO_PREFIX) or any(name.startswith(XACRO_PREFIX) for name in element.attributes)
        for element in root.walk()
    )


def expand(path: str | Path, package_paths: Sequence[Path] = (), arguments: Mapping[str, str] | None = None) -> str:
    """Return the URDF text of a description: as it stands, or expanded by xacro where it uses xacro.

    package_paths: where `$(find package)` looks, before ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and the packages
    that hold the file. arguments: values of `xacro:arg`. Raises InvalidInputError that names the file and
    what stands in the way, an argument that it never asks for among it. Expressions that reach into Python
    itself are refused.
    """
    path = Path(path)
    try:
        text = read_xml_text(path).text
        root = parse_xml(text)
        if path.suffix.lower() == ".xacro" or is_xacro(root):
            return expand_xacro(path, package_paths, arguments)
        return text
    except UnreadableError as reason:
        where = f"{path}:{reason.line}" if reason.line is not None else str(path)
        fault = Fault(where, str(reason), "a robot description in URDF or xacro")
        raise InvalidInputError(f"robot description {path}", [fault], reason.fix) from None


def description_sha256(path: str | Path) -> str:
    """SHA-256 of what a description says, as canonical XML without comments (W3C C14N 2.0).

    The same wherever the file lies: xacro writes the path that it has read into a comment. Raises as `expand`.
    """
    return hashlib.sha256(canonicalize(expand(path), strip_text=True).encode()).hexdigest()


def expand_xacro(path: Path, package_paths: Sequence[Path] = (), arguments: Mapping[str, str] | None = None) -> str:
    """Run xacro on a file, in this process. Raises UnreadableError that says what stopped it, and where.

    Raises InvalidInputError where the file asks for no argument of a name in `arguments`.
    """
    finder = ResourceFinder.beside(path, package_paths)
    values = _Arguments(arguments or {})
    with _XACRO_LOCK, guarded_xacro(finder) as xacro:
        try:
            text = str(xacro.process_file(str(path), mappings=values, verbosity=0).toprettyxml(indent="  "))
        except UnreadableError as reason:
            inside = _inside(xacro, path)
            raise UnreadableError(reason.rule, f"{inside}{reason}", reason.fix, reason.line) from None
        except RecursionError:
            message = f"{_inside(xacro, path)}macros or includes call themselves without end"
            raise UnreadableError(Rule.XACRO_FAILED, message, "give the recursion an end (xacro:if)") from None
        except Exception as failure:  # expressions in the file are Python and can raise anything
            cause: Any = failure
            while getattr(cause, "exc", None) is not None:  # xacro wraps what expressions raise, once a level
                cause = cause.exc
            if isinstance(cause, ForbiddenExpressionError):
                raise UnreadableError(Rule.XACRO_FAILED, f"{_inside(xacro, path)}{cause}", _TRUST_FIX) from None
            message = f"{_inside(xacro, path)}xacro cannot expand it: {_reason(failure)}"
            raise UnreadableError(Rule.XACRO_FAILED, message, _fix(str(failure))) from failure
    require_asked_for(path, arguments or {}, values.asked)
    return text


class _Arguments(dict[str, str]):
    """Values of arguments. asked: the names that a xacro:arg or `$(arg …)` has asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.asked: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)


def require_asked_for(path: Path, given: Iterable[str], asked: Set[str]) -> None:
    """Refuse arguments that a description does not ask for; raises InvalidInputError that names all of them."""
    known = f"one of {', '.join(sorted(asked))}" if asked else "none: it asks for no xacro:arg"
    faults = [Fault("argument", repr(name), known) for name in given if name not in asked]
    if faults:
        raise InvalidInputError(f"robot description {path}", faults, "mend the name or leave it out")


def _inside(xacro: ModuleType, path: Path) -> str:
    """Say in which included file expansion stopped; nothing where it was the file itself."""
    stack = [name for name in (xacro.filestack or []) if name]
    return f"in {stack[-1]}: " if stack and Path(stack[-1]) != path else ""


def _reason(failure: Exception) -> str:
    if isinstance(failure, expat.ExpatError):
        return f"not well-formed XML on line {failure.lineno}: {failure}"
    inner = getattr(failure, "exc", None)
    if isinstance(inner, Exception) and str(failure).startswith("<class"):
        failure = inner  # xacro says class and text of what it caught, and then the text again
    text = " ".join(str(failure).split())
    return text if text else type(failure).__name__


def _fix(reason: str) -> str:
    if "$(find" in reason:
        return "give the folder that holds the package with --package-path"
    if "Undefined substitution argument" in reason:
        return "give it a value with --arg NAME:=VALUE, or the xacro:arg a default"
    if "included file" in reason:
        return "check the path of the xacro:include; relative paths start at the including file"
    return "mend the xacro there"
