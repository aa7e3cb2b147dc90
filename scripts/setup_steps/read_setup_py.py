"""Print what the setup.py of the current folder would install, as JSON; run by the venv's Python."""

from __future__ import annotations

import json
import runpy
import sys

import setuptools


def main() -> int:
    """Evaluate ./setup.py with a setup() that only takes notes."""
    calls: list[dict] = []
    setuptools.setup = lambda **arguments: calls.append(arguments)
    sys.argv = ["setup.py"]
    runpy.run_path("setup.py", run_name="__main__")
    if len(calls) != 1:
        raise SystemExit(f"setup.py called setup() {len(calls)} times, expected once")
    dist = setuptools.Distribution(calls[0])
    dist.parse_config_files()
    points = dist.entry_points or {}
    scripts = points.get("console_scripts", [])
    lines = scripts.splitlines() if isinstance(scripts, str) else scripts
    facts = {
        "package_dir": dist.package_dir or {},
        "data_files": [[folder, list(files)] for folder, files in dist.data_files or []],
        "console_scripts": [line for line in lines if line.strip()],
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
