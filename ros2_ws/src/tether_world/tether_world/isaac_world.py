"""Hands over to the Python of Isaac Lab, which is an environment of its own, with a world node in it.

TETHER_ISAAC_PYTHON names that Python; else it is the one that `scripts/setup_isaac` makes in the checkout.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tether.resources import resource_path

VARIABLE = "TETHER_ISAAC_PYTHON"
MODULE = "tether_isaac.node"


def main() -> None:
    """Entry point: becomes the node, or says what is missing (exit status 2)."""
    python = Path(os.environ.get(VARIABLE) or resource_path("urdf").parent / ".venv-isaac" / "bin" / "python")
    if not os.access(python, os.X_OK):
        sys.stderr.write(
            f"isaac_world: found no Python with Isaac Lab: {python} is not there or cannot be run\n"
            f"  fix: sh scripts/setup_isaac (8 GB, Python 3.12), or name one: {VARIABLE}=/path/to/python\n"
        )
        sys.exit(2)
    os.execv(python, [str(python), "-m", MODULE, *sys.argv[1:]])
