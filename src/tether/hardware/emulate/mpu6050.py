"""An MPU-6050 register by register: identity, reset, FIFO with its overflow, and the ways in which it fails."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Sequence

from tether.hardware.imu_mpu6050 import (
    ACCEL_PER_LSB,
    FIFO_COUNT,
    FIFO_EN,
    FIFO_ENABLE,
    FIFO_R_W,
    FIFO_RESET,
    GYRO_AND_ACCEL,
    GYRO_PER_LSB,
    IDENTITY,
    INT_STATUS,
    OVERFLOW,
    PWR_MGMT_1,
    RESET,
    USER_CTRL,
    WHO_AM_I,
)

_SLEEP = 0x40
_FIFO_BYTES = 1024
_FULL = 32767


class EmulatedMpu6050:
    """See `tether.hardware.emulate.i2c.Device`. `push` is the silicon: it puts a sample into the FIFO."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.failing: int | None = None
        """errno of every transfer, None where the bus is well."""
        self.transfers = 0
        self._power_up()

    def power_cycle(self) -> None:
        """Registers as after the power came on."""
        with self._lock:
            self._power_up()

    def push(self, gyro_rad_s: Sequence[float], accel_m_s2: Sequence[float]) -> None:
        """One more sample along the chip's axes, where it is awake and told to keep any."""
        words = [round(value / ACCEL_PER_LSB) for value in accel_m_s2]
        words += [round(value / float(GYRO_PER_LSB)) for value in gyro_rad_s]
        sample = struct.pack(">6h", *(max(-_FULL, min(_FULL, word)) for word in words))
        with self._lock:
            registers = self._registers
            awake = not registers[PWR_MGMT_1] & _SLEEP
            if awake and registers[USER_CTRL] & FIFO_ENABLE and registers[FIFO_EN] == GYRO_AND_ACCEL:
                self._fifo += sample
                if len(self._fifo) > _FIFO_BYTES:
                    del self._fifo[: len(self._fifo) - _FIFO_BYTES]
                    registers[INT_STATUS] |= OVERFLOW

    def transfer(self, written: bytes, size: int) -> bytes:
        """See `Device`."""
        with self._lock:
            self.transfers += 1
            if self.failing is not None:
                raise OSError(self.failing, os.strerror(self.failing))
            if not written:
                raise OSError(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO))
            register = written[0]
            for offset, value in enumerate(written[1:]):
                self._write(register + offset, value)
            return self._read(register, size)

    def _power_up(self) -> None:
        self._registers = bytearray(128)
        self._registers[WHO_AM_I] = IDENTITY
        self._registers[PWR_MGMT_1] = _SLEEP
        self._fifo = bytearray()

    def _write(self, register: int, value: int) -> None:
        if register == PWR_MGMT_1 and value & RESET:
            self._power_up()
            return
        if register == USER_CTRL and value & FIFO_RESET:
            self._fifo.clear()
            value &= ~FIFO_RESET
        self._registers[register] = value

    def _read(self, register: int, size: int) -> bytes:
        if register == FIFO_R_W:
            data = bytes(self._fifo[:size]).ljust(size, b"\xff")
            del self._fifo[:size]
            return data
        self._registers[FIFO_COUNT : FIFO_COUNT + 2] = len(self._fifo).to_bytes(2, "big")
        data = bytes(self._registers[register : register + size])
        if register <= INT_STATUS < register + size:
            self._registers[INT_STATUS] = 0
        return data
