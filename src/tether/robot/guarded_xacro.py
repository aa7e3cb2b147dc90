"""The xacro module with its reads, `$(find …)`, expressions and messages going through this library."""

from __future__ import annotations

import contextlib
import io
import logging
import xml.dom.minidom
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tether.robot.expressions import HIDING, require_harmless
from tether.robot.findings import Rule
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import UnreadableError, parse_xml, read_xml_text, without_declaration

_LOG = logging.getLogger(__name__)
MAX_ELEMENTS = 300_000
"""Expansion stops there: macros that call each other twice grow as entity bombs do."""


@contextlib.contextmanager
def guarded_xacro(finder: ResourceFinder) -> Iterator[ModuleType]:
    """Lend the xacro module, changed as `_Guard` says for as long as it is lent; one at a time.

    Raises UnreadableError where the package is missing.
    """
    try:
        import xacro
        from xacro import substitution_args
    except ImportError:
        raise UnreadableError(Rule.XACRO_FAILED, "needs the xacro package", "pip install xacro") from None

    symbols = xacro.create_global_symbols()  # anew: expressions can write into them, and the next robot's would read it
    for name in HIDING:
        symbols["python"].pop(name, None)
    guard = _Guard(xacro, substitution_args, finder, symbols)
    said = io.StringIO()
    with contextlib.ExitStack() as restored:
        for owner, name, value in guard.replaced():
            restored.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        known = substitution_args._eval_dict
        restored.callback(known.__setitem__, "find", known["find"])
        known["find"] = guard.find
        substitution_args.eval = guard.evaluate_bare  # found before Python's own, which would lend all its builtins
        restored.callback(delattr, substitution_args, "eval")
        try:
            with contextlib.redirect_stderr(said):
                yield xacro
        finally:
            for line in filter(None, map(str.strip, said.getvalue().splitlines())):
                _LOG.warning("xacro: %s", line)


class _Guard:
    """What stands in the place of xacro's own functions during one expansion."""

    def __init__(
        self, xacro: ModuleType, substitution: ModuleType, finder: ResourceFinder, symbols: dict[str, Any]
    ) -> None:
        self._xacro, self._substitution, self._finder, self._symbols = xacro, substitution, finder, symbols
        self._eval_all, self._safe_eval = xacro.eval_all, xacro.safe_eval
        self._eval_in_parentheses = substitution._eval
        self._grown = 0

    def replaced(self) -> tuple[tuple[ModuleType, str, Any], ...]:
        """Module, name and what is to stand there."""
        return (
            (self._xacro, "parse", self.parse),
            (self._xacro, "eval_all", self.eval_all),
            (self._xacro, "safe_eval", self.evaluate),
            (self._xacro, "verbosity", 0),
            (self._xacro, "_global_symbols", self._symbols),
            (self._substitution, "_eval", self.evaluate_in_parentheses),
            (self._substitution, "_eval_find", self.find),
        )

    def find(self, package: str) -> str:
        """Answer `$(find package)` as everywhere in this library."""
        folder = self._finder.package(package)
        if folder is None:
            raise LookupError(f"$(find {package}): the package was not found")
        return str(folder)

    def parse(self, given: Any, filename: str | None = None) -> Any:
        """Read a file as all robot descriptions are read: no entities, no network, bounded."""
        if given is not None or filename is None:
            raise UnreadableError(Rule.XACRO_FAILED, "text without a file", "include files by name")
        try:
            source = read_xml_text(Path(filename)).text
        except UnreadableError as reason:
            # What xacro itself does, so that optional="true" includes stay optional.
            self._xacro.filestack.pop()
            raise self._xacro.XacroException(f"included file {filename}:", exc=OSError(str(reason))) from reason
        parse_xml(source)
        return xml.dom.minidom.parseString(without_declaration(source).encode("utf-8"))

    def evaluate(self, expression: str, *scope: Any) -> Any:
        """Evaluate what stands in `${…}`, unless it reaches into Python."""
        require_harmless(expression)
        return self._safe_eval(expression, *scope)

    def evaluate_in_parentheses(self, expression: str, context: Any) -> Any:
        """Evaluate `$(eval …)`, unless it reaches into Python."""
        require_harmless(expression)
        return self._eval_in_parentheses(expression, context)

    def evaluate_bare(self, expression: str, _: Any, scope: Any) -> Any:
        """Evaluate what `$(eval …)` holds with the functions that `${python.…}` has, instead of all of Python's."""
        return self._safe_eval(expression, dict(self._symbols["python"]), scope)

    def eval_all(self, node: Any, macros: Any, symbols: Any) -> None:
        """Expand an element, unless there have been too many."""
        self._grown += 1
        if self._grown > MAX_ELEMENTS:
            message = f"grows beyond {MAX_ELEMENTS} elements"
            raise UnreadableError(Rule.XACRO_FAILED, message, "look for macros that multiply each other")
        self._eval_all(node, macros, symbols)
