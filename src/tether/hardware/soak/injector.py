"""Faults in turn, one at a time: put in, taken away, and watched until the robot is whole again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tether.hardware.emulate.process import DeviceFault, DeviceProcess

HELD_S = 2.0
RECOVER_S = 30.0
SIGNS: Mapping[DeviceFault, frozenset[str]] = {
    DeviceFault.OVERLOAD: frozenset({"servo_faulted"}),
    DeviceFault.CHECKSUM: frozenset({"checksum_errors"}),
    DeviceFault.SILENCE: frozenset({"servo_silent"}),
    DeviceFault.UNPLUG: frozenset({"servo_bus_lost"}),
    DeviceFault.POWER: frozenset({"servo_bus_lost"}),
    DeviceFault.ERRNO_121: frozenset({"imu_fault"}),
    DeviceFault.STUCK_I2C: frozenset({"imu_fault"}),
    DeviceFault.IMU_RESET: frozenset({"imu_fault"}),
    DeviceFault.CAMERA_STALL: frozenset({"camera_fault"}),
}
"""Kinds of notices of which one says that the driver has noticed; damaged replies are counted and not said."""


@dataclass
class Injection:
    """One fault. noticed_s: from its start; recovered_s: from its end, None where it did not come within 30 s."""

    fault: str
    servo_id: int
    at_s: float
    noticed_s: float | None = None
    recovered_s: float | None = None
    said: list[str] = field(default_factory=list)


class Injector:
    """Puts a fault in every `every_s`, beginning with one period of rest."""

    def __init__(self, devices: DeviceProcess, servo_ids: Sequence[int], every_s: float, seed: int, done: int) -> None:
        """done: how many were put in before an interruption."""
        self._devices = devices
        self._ids = list(servo_ids)
        self._every_s = every_s
        self._seed = seed
        self._count = done
        self._due_s: float | None = None
        self._current: Injection | None = None
        self._ended_s: float | None = None

    @property
    def calm(self) -> bool:
        """No fault is in place, nor its consequences."""
        return self._current is None

    def hear(self, kind: str, now_s: float) -> None:
        """A notice of the driver."""
        current = self._current
        if current is None:
            return
        current.said.append(kind)
        if current.noticed_s is None and kind in SIGNS[DeviceFault(current.fault)]:
            current.noticed_s = now_s - current.at_s

    def turn(self, now_s: float, whole: bool) -> Injection | None:
        """To be called every tick. whole: all streams flow and every servo takes goals. An injection that is over."""
        self._due_s = self._due_s if self._due_s is not None else now_s + self._every_s
        current = self._current
        if current is None:
            if now_s >= self._due_s:
                self._due_s += self._every_s
                self._begin(now_s)
            return None
        if self._ended_s is None:
            if now_s >= current.at_s + HELD_S:
                self._devices.end(DeviceFault(current.fault), current.servo_id)
                self._ended_s = now_s
            return None
        since_s = now_s - self._ended_s
        if (whole and since_s > 0.3) or since_s > RECOVER_S:
            current.recovered_s = since_s if whole else None
            self._current = None
            return current
        return None

    def clear(self) -> None:
        """Take away what is in place."""
        if self._current is not None and self._ended_s is None:
            self._devices.end(DeviceFault(self._current.fault), self._current.servo_id)

    def _begin(self, now_s: float) -> None:
        kinds = list(DeviceFault)
        fault = kinds[self._count % len(kinds)]
        servo_id = random.Random(f"{self._seed}/{self._count}").choice(self._ids)
        self._count += 1
        self._current, self._ended_s = Injection(fault.value, servo_id, now_s), None
        self._devices.begin(fault, servo_id)
