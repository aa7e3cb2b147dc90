"""Adds the repository's resource folders to a wheel, as `tether/share`; all else is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# The same places as in tether.resources.
RESOURCES = {
    "config": "config",
    "urdf": "urdf",
    "models": "models",
    "launch": "launch",
    "msg": "ros2_ws/src/tether_msgs/msg",
}


class BuildWithResources(build_py):
    """build_py that also copies the resource folders; an editable install reads them where they lie."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        here = Path(__file__).resolve().parent
        for kind, folder in RESOURCES.items():
            target = Path(self.build_lib) / "tether" / "share" / kind
            shutil.rmtree(target, ignore_errors=True)
            if (here / folder).is_dir():
                shutil.copytree(here / folder, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))


setup(cmdclass={"build_py": BuildWithResources})
