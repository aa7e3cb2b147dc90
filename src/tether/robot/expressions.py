"""Which Python expressions a xacro file may hold: arithmetic, names and calls, but no way into the interpreter.

xacro takes away the builtins and refuses names that begin with two underscores, but does not look into lambdas and
comprehensions, and offers `vars`; from any object the hidden names lead to `os.system`. So every expression is parsed
and looked through before it is evaluated. (https://nedbatchelder.com/blog/201206/eval_really_is_dangerous.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

HIDING = ("vars",)
"""Functions of xacro's namespace `python` that hand out what an object hides; no robot needs one."""
_INSIDES = ("gi_", "cr_", "ag_", "tb_", "co_", "func_")
"""First letters of what generators, coroutines, tracebacks and code keep inside."""
_OF_FRAMES = frozenset({"f_back", "f_builtins", "f_code", "f_globals", "f_locals", "f_trace"})


class ForbiddenExpressionError(Exception):
    """An expression that would reach into the interpreter."""


@lru_cache(maxsize=4096)
def require_harmless(expression: str) -> None:
    """Raise ForbiddenExpressionError where an expression names what leads to running other code.

    What is no expression at all passes: evaluating it raises the syntax error by itself.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return
    for name in _leading_inside(tree):
        raise ForbiddenExpressionError(f"the expression {_short(expression)!r} uses {name!r}, which is refused")


def _leading_inside(tree: ast.AST) -> Iterator[str]:
    """Names that lead inside of an object; by now Python has brought them to one spelling (NFKC)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr.startswith(("_", *_INSIDES)) or node.attr in _OF_FRAMES:
                yield node.attr
        elif isinstance(node, ast.Name) and node.id.startswith("__"):
            yield node.id


def _short(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= 60 else text[:59] + "…"
