"""Print what the setup.py of the current folder would install, as JSON; run by the venv's Python."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> int:
    """Evaluate ./setup.py without running any command."""
    sys.argv = ["setup.py"]
    importlib.import_module("setuptools")  # brings the distutils that Python 3.12 and later lack
    dist = importlib.import_module("distutils.core").run_setup("setup.py", stop_after="init")
    dist.parse_config_files()
    points = dist.entry_points or {}
    scripts = points.get("console_scripts", []) if isinstance(points, dict) else []
    facts = {
        "package_dir": dist.package_dir or {},
        "data_files": [[folder, list(files)] for folder, files in dist.data_files or []],
        "console_scripts": [
            line for line in (scripts.splitlines() if isinstance(scripts, str) else scripts) if line.strip()
        ],
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
