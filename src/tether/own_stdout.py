"""Standard output for the answers of a process to its parent, and for nothing else.

Libraries write to file descriptor 1 behind Python's back: Fast DDS logs its errors there, a skill may print. A line of
theirs between two answers would be taken for one.
"""

from __future__ import annotations

import os
from typing import BinaryIO


def own_stdout() -> BinaryIO:
    """What this process was given as standard output; whatever else writes to that, goes to standard error from now."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own
