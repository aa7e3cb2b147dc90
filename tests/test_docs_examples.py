"""Python examples in the documentation: what they import is there, and they use no name that they do not make."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FROM_THE_READER = {"make_env", "observation", "msg", "rgb", "camera"}
"""What an example cannot make: the reader's own environment, message, picture."""


def python_examples() -> list[tuple[str, str]]:
    """(document, code) of each indented block with an import of Python's in it."""
    found = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"(?:^    .*\n|^\n)+", document.read_text(encoding="utf-8"), flags=re.MULTILINE):
            code = textwrap.dedent(block).strip()
            if re.search(r"^(from \S+ import |import \w)", code, flags=re.MULTILINE):
                found.append((document.name, code))
    return found


EXAMPLES = [(name, code) for name, code in python_examples() if "tether_isaac" not in code]  # of an environment apart


def test_documents_have_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("document", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_imports_what_there_is_and_uses_what_it_makes(document: str, code: str) -> None:
    tree = ast.parse(code, filename=document)
    made = {*dir(builtins), *FROM_THE_READER}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            lacking = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert not lacking, f"{node.module} has no {lacking}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            made |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert used <= made
