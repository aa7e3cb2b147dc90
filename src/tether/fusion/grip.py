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
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.state = Grip.OPEN
        self._still_since_ns: int | None = None
        self._stamp_ns = -1

    def take(self, stamp_ns: int, opening_m: float, rate_m_s: float) -> Grip:
        """The state after a reading: opening between the pads and its rate. Older readings change nothing."""
        if stamp_ns <= self._stamp_ns:
            return self.state
        self._stamp_ns = stamp_ns
        config = self._config
        if abs(rate_m_s) > config.stall_m_s:
            self._still_since_ns = None
        elif self._still_since_ns is None:
            self._still_since_ns = stamp_ns
        still_ns = stamp_ns - self._still_since_ns if self._still_since_ns is not None else -1
        if opening_m >= config.open_m:
            self.state = Grip.OPEN
        elif opening_m < config.empty_m:
            self.state = Grip.EMPTY
        elif opening_m < config.closing_m and still_ns >= round(config.stall_s * 1e9):
            self.state = Grip.HOLDING
        elif self.state is not Grip.HOLDING or rate_m_s > config.stall_m_s:
            self.state = Grip.MOVING
        return self.state

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        return repr((self.state.value, self._still_since_ns, self._stamp_ns)).encode()
