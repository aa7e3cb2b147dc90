"""Expansion of xacro in a process of its own, which may use only so much time and memory.

Expressions in xacro are Python: `${9**9**9}` computes for hours inside one operation, and no check between two
elements ends it.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.own_stdout import own_stdout
from tether.robot.description import expand_xacro
from tether.robot.findings import Rule
from tether.robot.xmltree import UnreadableError

_LOG = logging.getLogger(__name__)
CPU_S = 20
"""Time of computing; a large robot (PR2) needs 2 s."""
WAITS = 6
"""Real time, as a multiple of it: a busy machine is no fault of the file."""
MEMORY_BYTES = 2 * 1024**3
"""Address space of the process; the largest robots need a tenth."""


def expand_apart(
    path: Path, package_paths: Sequence[Path] = (), arguments: Mapping[str, str] | None = None, *, cpu_s: int = CPU_S
) -> str:
    """As `expand_xacro`; raises UnreadableError also where the expansion takes too long or too much memory."""
    task = {"path": str(path), "packages": [str(p) for p in package_paths], "arguments": dict(arguments or {})}
    command = [sys.executable, "-m", __name__, json.dumps({**task, "cpu_s": cpu_s})]
    # The same modules as here, and none that happens to lie in the working directory.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    wait_s = WAITS * cpu_s
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=wait_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"xacro has not expanded it in {wait_s} s") from None
    if done.returncode == -signal.SIGXCPU:
        raise _failed(f"xacro has not expanded it in {cpu_s} s of computing")
    for line in done.stderr.splitlines():
        _LOG.warning("%s", line)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise _failed(f"the expansion ended without a result (exit status {done.returncode})") from None
    if "text" in answer:
        return str(answer["text"])
    if "faults" in answer:
        raise InvalidInputError(answer["what"], [Fault(*fault) for fault in answer["faults"]], answer["fix"])
    raise UnreadableError(Rule(answer["rule"]), answer["message"], answer["fix"], answer["line"])


def _failed(message: str) -> UnreadableError:
    return UnreadableError(Rule.XACRO_FAILED, message, "look for expressions that grow without end")


def _main(words: Sequence[str]) -> None:
    """Answer as JSON on what is stdout at the start; what expressions print goes to stderr."""
    task = json.loads(words[0])
    resource.setrlimit(resource.RLIMIT_CPU, (task["cpu_s"], task["cpu_s"] + 1))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with own_stdout() as out:
        answer: dict[str, Any]
        try:
            packages = [Path(folder) for folder in task["packages"]]
            answer = {"text": expand_xacro(Path(task["path"]), packages, task["arguments"])}
        except UnreadableError as error:
            answer = {"rule": error.rule.value, "message": str(error), "fix": error.fix, "line": error.line}
        except InvalidInputError as error:
            answer = {"what": error.what, "faults": [astuple(fault) for fault in error.faults], "fix": error.fix}
        out.write(json.dumps(answer).encode())


if __name__ == "__main__":
    _main(sys.argv[1:])
