"""Whether fingers press on something: they stand still between closed and open.

Unlike `tether.fusion.grip`, which a policy acts on and which must not be wrong for a moment, this looks at a window
that ends after the moment in question, and so tells a slowly closing gripper from one that has stopped.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from tether.rewards.config import SensedConfig


class Fingers:
    """Follows readings of the opening."""

    def __init__(self, config: SensedConfig) -> None:
        self._config = config
        self._window_ns = round(config.stall_s * 1e9)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._recent: deque[tuple[int, float]] = deque()
        self._pressing = False

    def take(self, stamp_ns: int, opening_m: float) -> bool:
        """Whether the fingers have been pressing on something through the window that ends with this reading."""
        recent, config = self._recent, self._config
        recent.append((stamp_ns, opening_m))
        while len(recent) > 1 and recent[1][0] <= stamp_ns - self._window_ns:
            recent.popleft()
        between = config.empty_m <= opening_m < config.touch_m
        whole = stamp_ns - recent[0][0] >= self._window_ns
        if not between or not whole:
            self._pressing = self._pressing and between
            return self._pressing
        # Half against half: of the readings' noise a mean of six leaves less than half.
        openings = [opening for _, opening in recent]
        middle = len(openings) // 2
        moved = abs(float(np.mean(openings[middle:]) - np.mean(openings[:middle])))
        limit = config.stall_m if not self._pressing else 2.0 * config.stall_m
        self._pressing = moved < limit
        return self._pressing
