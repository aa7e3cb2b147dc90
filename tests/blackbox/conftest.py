"""Test folders are no packages; box_making is shared by the modules of this one."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
