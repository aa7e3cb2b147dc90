"""What every measuring tool's JSON begins with, and how it is written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether import __version__


def header(tool: str, seed: int) -> dict[str, Any]:
    """tool, version, commit, machine, command and seed of a measurement made now by this process."""
    return {
        "tool": tool,
        "version": __version__,
        "commit": _commit(),
        "machine": _machine(),
        "command": " ".join(["tether", *sys.argv[1:]]),
        "seed": seed,
    }


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


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
