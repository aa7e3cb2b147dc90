"""Expansion of xacro in a process of its own, which may use only so much time and memory.

Expressions in xacro are Python: `${9**9**9}` computes for hours inside one operation, and no check between two
elements ends it.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tether.robot.description import expand_xacro
from tether.robot.findings import Rule
from tether.robot.xmltree import UnreadableError

_LOG = logging.getLogger(__name__)
DEADLINE_S = 20.0
MEMORY_BYTES = 2 * 1024**3
"""Address space of the process; the largest robots need a tenth."""


def expand_apart(path: Path, package_paths: Sequence[Path] = (), *, deadline_s: float = DEADLINE_S) -> str:
    """As `expand_xacro`; raises UnreadableError also where the expansion takes too long or too much memory."""
    command = [sys.executable, "-m", __name__, str(path), *map(str, package_paths)]
    # The same modules as here, and none that happens to lie in the working directory.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=deadline_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"xacro has not expanded it in {deadline_s:g} s") from None
    for line in done.stderr.splitlines():
        _LOG.warning("%s", line)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise _failed(f"the expansion ended without a result (exit status {done.returncode})") from None
    if "text" in answer:
        return str(answer["text"])
    raise UnreadableError(Rule(answer["rule"]), answer["message"], answer["fix"], answer["line"])


def _failed(message: str) -> UnreadableError:
    return UnreadableError(Rule.XACRO_FAILED, message, "look for expressions that grow without end")


def _main(words: Sequence[str]) -> None:
    """Answer as JSON on what is stdout at the start; what expressions print goes to stderr."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        answer: dict[str, str | int | None]
        try:
            answer = {"text": expand_xacro(Path(words[0]), [Path(word) for word in words[1:]])}
        except UnreadableError as error:
            answer = {"rule": error.rule.value, "message": str(error), "fix": error.fix, "line": error.line}
        json.dump(answer, out)


if __name__ == "__main__":
    _main(sys.argv[1:])
