"""What the robot's computer suffers from: heat, throttling, little memory. Read from files, without waiting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

THROTTLED_NOW = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
"""Bits of `vcgencmd get_throttled` that hold now; those since the start are 16 higher (Raspberry Pi documentation)."""
_NOW_MASK = sum(1 << bit for bit in THROTTLED_NOW)


@dataclass(frozen=True)
class MachineState:
    """cpu_c: hottest thermal zone, °C. throttled: the firmware's flags. available_mb: memory to be had without
    swapping, in 10^6 bytes. Each is None where the computer does not tell.
    """

    cpu_c: float | None = None
    throttled: int | None = None
    available_mb: float | None = None

    @property
    def is_throttled(self) -> bool:
        """Slowed down, or short of voltage, at this moment."""
        return self.throttled is not None and bool(self.throttled & _NOW_MASK)


class MachineWatch:
    """Reads the state; which files there are is found out once. root: where /proc and /sys are."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._zones = sorted(root.glob("sys/class/thermal/thermal_zone*/temp"))
        self._flags = sorted(root.glob("sys/devices/platform/soc*/soc*:firmware/get_throttled"))
        self._memory = root / "proc/meminfo"

    def read(self) -> MachineState:
        """The state now."""
        degrees = [value / 1000.0 for path in self._zones if (value := _number(path, 10)) is not None]
        flags = [value for path in self._flags if (value := _number(path, 16)) is not None]
        return MachineState(
            cpu_c=max(degrees, default=None),
            throttled=flags[0] if flags else None,
            available_mb=_available_mb(self._memory),
        )


def _number(path: Path, base: int) -> int | None:
    try:
        return int(path.read_text(encoding="ascii").strip(), base)
    except (OSError, ValueError):
        return None


def _available_mb(path: Path) -> float | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if name == "MemAvailable" and words and words[0].isdigit():
            return int(words[0]) * 1024 / 1e6
    return None
