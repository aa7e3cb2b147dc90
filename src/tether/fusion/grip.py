"""What the fingers' own position says: open, closing, holding something, or closed on nothing."""

from __future__ import annotations

from enum import Enum

from tether.fusion.classic_config import GripConfig


class Grip(Enum):
    """States of the gripper as felt through its joint."""

    OPEN = "open"
    MOVING = "moving"
    HOLDING = "holding"
    EMPTY = "empty"


class GripSense:
    """Follows readings of the opening. Fingers that stand still between closed and open press on something."""

    def __init__(self, config: GripConfig) -> None:
        self._config = config
        self._window_ns = round(config.stall_s * 1e9)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.state = Grip.OPEN
        self._recent: list[tuple[int, float]] = []

    def take(self, stamp_ns: int, opening_m: float) -> Grip:
        """The state after a reading of the opening between the pads. Older readings change nothing."""
        recent, config = self._recent, self._config
        if recent and stamp_ns <= recent[-1][0]:
            return self.state
        recent.append((stamp_ns, opening_m))
        while len(recent) > 1 and recent[1][0] <= stamp_ns - self._window_ns:
            del recent[0]
        openings = [opening for _, opening in recent]
        still = stamp_ns - recent[0][0] >= self._window_ns and max(openings) - min(openings) < config.stall_m
        if opening_m >= config.open_m:
            self.state = Grip.OPEN
        elif opening_m < config.empty_m or self.state is Grip.EMPTY:
            self.state = Grip.EMPTY  # what was closed on nothing holds nothing until it has been open again
        elif opening_m < config.touch_m and still:
            self.state = Grip.HOLDING
        elif self.state is not Grip.HOLDING or opening_m - min(openings) > config.stall_m:
            self.state = Grip.MOVING
        return self.state

    @property
    def touching(self) -> bool:
        """Whether the fingers are so near to each other that they may push the object."""
        return bool(self._recent) and self._recent[-1][1] < self._config.touch_m

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        return repr((self.state.value, self._recent)).encode()
