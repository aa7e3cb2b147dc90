"""What the memory's tests share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; bolt_server is shared by their modules
