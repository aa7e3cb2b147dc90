"""What every measuring tool's JSON begins with, and how it is written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tether import __version__
from tether.errors import Fault, InvalidInputError

_FIX = "name a file in a folder that can be written"


def header(tool: str, seed: int, command: str | None = None) -> dict[str, Any]:
    """tool, version, commit, machine, command and seed of a measurement made now by this process.

    command: the command line it was asked for with, where that is not this process's own.
    """
    return {
        "tool": tool,
        "version": __version__,
        "commit": _commit(),
        "machine": _machine(),
        "command": command_line() if command is None else command,
        "seed": seed,
    }


def command_line() -> str:
    """The command line of this process, a `tether …`."""
    return " ".join(["tether", *sys.argv[1:]])


def require_writable(path: Path) -> None:
    """Make the folders above `path` and try whether a file can be written there; `path` itself stays as it is.

    To be called before what takes long. Raises InvalidInputError, also for `-`, which would be a file of that name.
    """
    if path == Path("-"):
        fix = "name a file; /dev/stdout puts the result behind what is printed"
        raise InvalidInputError("output", [Fault("-", "'-'", "the name of a file")], fix)
    try:
        if path.is_fifo():  # opened and closed again, it would tell its reader that this was all
            if not os.access(path, os.W_OK):
                raise PermissionError(0, "a pipe that may not be written")
            return
        if _is_stream(path):
            path.open("ab").close()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(0, "a folder")
        partial = _partial(path)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise InvalidInputError("output", [_unwritable(path, error)], _FIX) from None


def library_versions() -> dict[str, str]:
    """Versions of what the last bits of a result may depend on."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "mujoco")},
    }


def write_json(path: Path, result: Mapping[str, Any], *, last: bool = True) -> None:
    """Write a result whole or not at all. last: False where a fuller one follows and takes its place.

    A device or pipe (/dev/null, /dev/stdout, a shell's `>(jq .)`) stays what it is and is written to, the last result
    alone: what has been written there cannot be replaced. Where `path` cannot be written the result goes to a file of
    the system's temporary folder, and InvalidInputError names it.
    """
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    try:
        if _is_stream(path):
            if not last:
                return
            sys.stdout.flush()  # if it is the same, what was printed before comes before
            with path.open("a", encoding="utf-8") as stream:
                stream.write(text)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(path)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix="tether-result-", suffix=".json", delete=False, encoding="utf-8"
            ) as kept:
                kept.write(text)
            fix = f"the result is kept in {kept.name}: move it where it belongs"
        except OSError as second:
            fix = f"make room there; nor could it be kept in {tempfile.gettempdir()}: {second.strerror}"
        raise InvalidInputError("output", [_unwritable(path, error)], fix) from error


def _is_stream(path: Path) -> bool:
    """Whether a file put in the place of `path` would destroy more than an older file."""
    return path.parent == Path("/dev") or path.is_fifo() or path.is_char_device()


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _unwritable(path: Path, error: OSError) -> Fault:
    return Fault(str(path), error.strerror or str(error), "a file that can be written")


def _commit() -> str:
    """Commit of the checkout this module stands in, `-dirty` where it has changes, `unknown` outside one."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return "unknown"  # installed: git would name whatever repository the environment happens to lie in
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    for line in text.splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()
