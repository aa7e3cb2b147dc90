"""The MPU-6050: accelerometer and gyroscope at 200 Hz through its FIFO.

Source: InvenSense, "MPU-6000 and MPU-6050 register map", rev. 4.2. The chip's FIFO holds 1024 bytes, which is 0.42 s of
samples; it has no time of its own, so samples are stamped by counting them (`tether.hardware.imu_clock`).
"""

from __future__ import annotations

import struct
import time

import numpy as np

from tether.clock import Clock
from tether.contracts import F64
from tether.errors import TetherError
from tether.hardware.i2c import I2cDevice
from tether.hardware.imu_clock import CountedClock

WHO_AM_I, IDENTITY = 0x75, 0x68
SMPLRT_DIV, CONFIG, GYRO_CONFIG, ACCEL_CONFIG, FIFO_EN = 0x19, 0x1A, 0x1B, 0x1C, 0x23
INT_STATUS, USER_CTRL, PWR_MGMT_1, FIFO_COUNT, FIFO_R_W = 0x3A, 0x6A, 0x6B, 0x72, 0x74
RESET, CLOCK_OF_GYRO = 0x80, 0x01
FIFO_ENABLE, FIFO_RESET, OVERFLOW = 0x40, 0x04, 0x10
GYRO_AND_ACCEL = 0x78
SAMPLE_BYTES = 12
RATE_HZ = 200.0
FILTER_94_HZ, DIVIDER = 2, 4
"""The low pass makes the internal rate 1 kHz; divided by 1 + 4."""
FILTER_DELAY_NS = 2_900_000
"""Register map, CONFIG: 3.0 ms (accelerometer) and 2.8 ms (gyroscope) at this filter."""
RANGE_500_DPS, RANGE_4_G = 0x08, 0x08
GYRO_PER_LSB = np.deg2rad(1.0 / 65.5)
ACCEL_PER_LSB = 9.80665 / 8192.0
_RESET_S = 0.1
_MOST_SAMPLES = 84
_READ_AT_ONCE = 20


class ImuStateError(TetherError):
    """The chip is not what it should be, or lost samples; it has to be set up anew."""


class Mpu6050:
    """See `tether.hardware.imu.Chip`."""

    def __init__(self, device: I2cDevice, clock: Clock) -> None:
        self._device = device
        self._steady = clock
        self._clock = CountedClock(round(1e9 / RATE_HZ), FILTER_DELAY_NS)

    def set_up(self) -> None:
        """Reset and configure, with an empty FIFO. OSError of the bus, ImuStateError where another chip answers."""
        device = self._device
        device.open()
        identity = device.read(WHO_AM_I, 1)[0]
        if identity != IDENTITY:
            raise ImuStateError(
                f"IMU: WHO_AM_I is {identity:#04x}, expected {IDENTITY:#04x} of an MPU-6050; fix: `imu.kind`"
            )
        device.write(PWR_MGMT_1, RESET)
        time.sleep(_RESET_S)
        device.write(PWR_MGMT_1, CLOCK_OF_GYRO)
        for register, value in (
            (SMPLRT_DIV, DIVIDER),
            (CONFIG, FILTER_94_HZ),
            (GYRO_CONFIG, RANGE_500_DPS),
            (ACCEL_CONFIG, RANGE_4_G),
            (FIFO_EN, GYRO_AND_ACCEL),
            (USER_CTRL, FIFO_ENABLE | FIFO_RESET),
        ):
            device.write(register, value)
        if device.read(SMPLRT_DIV, 1)[0] != DIVIDER:
            raise ImuStateError("IMU: the chip does not keep its settings; fix: its supply and its cable")
        self._clock.restart()

    def poll(self) -> list[tuple[int, F64, F64, F64 | None]]:
        """Samples since the last poll, oldest first: (acquisition on the steady clock, gyro, accel, no orientation).

        gyro (3,) rad/s, accel (3,) m/s² along the chip's axes. ImuStateError where the FIFO ran over: its bytes are
        then no longer aligned to samples.
        """
        device = self._device
        if device.read(INT_STATUS, 1)[0] & OVERFLOW:
            raise ImuStateError("IMU: the FIFO ran over; nobody read it for 0.4 s")
        count, rest = divmod(int.from_bytes(device.read(FIFO_COUNT, 2), "big"), SAMPLE_BYTES)
        read_ns = self._steady.now_ns()
        if count > _MOST_SAMPLES:
            raise ImuStateError(
                f"IMU: {count} samples and {rest} bytes wait in the FIFO, expected at most {_MOST_SAMPLES}"
            )
        raw = b""
        for first in range(0, count, _READ_AT_ONCE):
            raw += device.read(FIFO_R_W, SAMPLE_BYTES * min(_READ_AT_ONCE, count - first))
        stamps = self._clock.stamps(count, read_ns)
        rows = [struct.unpack_from(">6h", raw, i * SAMPLE_BYTES) for i in range(count)]
        return [
            (stamp_ns, np.array(row[3:]) * GYRO_PER_LSB, np.array(row[:3]) * ACCEL_PER_LSB, None)
            for stamp_ns, row in zip(stamps, rows, strict=True)
        ]
