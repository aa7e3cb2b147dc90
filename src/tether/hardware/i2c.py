"""A device on an I2C bus, by what smbus2 offers: one combined transfer, of any length, for each register access.

Errors are the kernel's OSError: 121 (EREMOTEIO) where the device does not acknowledge, 110 (ETIMEDOUT) where something
holds the bus.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.hardware.settings import I2cKind, ImuSettings


class I2cDevice:
    """Registers of one device. `open_bus` is called by `open`, after a bus error anew: a stuck adapter may need it."""

    def __init__(self, open_bus: Callable[[], Any], message: Any, address: int) -> None:
        """open_bus: makes an smbus2.SMBus or what stands for it; message: the class i2c_msg that goes with it."""
        self._open_bus = open_bus
        self._message = message
        self._address = address
        self._bus: Any = None

    def open(self) -> None:
        """Open the bus; OSError where there is none."""
        self.close()
        self._bus = self._open_bus()

    def read(self, register: int, size: int) -> bytes:
        """`size` bytes from `register` on."""
        answer = self._message.read(self._address, size)
        self._bus.i2c_rdwr(self._message.write(self._address, [register]), answer)
        return bytes(answer)

    def read_only(self, size: int) -> bytes:
        """`size` bytes of a device that has no registers."""
        answer = self._message.read(self._address, size)
        self._bus.i2c_rdwr(answer)
        return bytes(answer)

    def write(self, register: int, *data: int) -> None:
        """Write bytes from `register` on."""
        self.write_only([register, *data])

    def write_only(self, data: list[int]) -> None:
        """Write bytes to a device that has no registers."""
        self._bus.i2c_rdwr(self._message.write(self._address, data))

    def close(self) -> None:
        """Close the bus."""
        bus, self._bus = self._bus, None
        if bus is not None:
            with contextlib.suppress(OSError):
                bus.close()


def device_of(settings: ImuSettings) -> I2cDevice:
    """The device that the settings name, not opened yet."""
    emulated = settings.i2c is I2cKind.EMULATED
    module = importlib.import_module("tether.hardware.emulate.i2c" if emulated else "smbus2")
    bus: str | int = settings.bus
    if not emulated:
        try:
            bus = int(settings.bus)
        except ValueError as error:
            fault = Fault("imu: bus", repr(settings.bus), "the number of an I2C bus")
            raise InvalidInputError("robot", [fault]) from error
    return I2cDevice(lambda: module.SMBus(bus), module.i2c_msg, settings.address)
