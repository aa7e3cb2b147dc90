"""The BNO085: an IMU that fuses its orientation itself; reports over SHTP, CEVA's packets on I2C.

Sources: CEVA, "Sensor hub transport protocol" (1000-3535) and "SH-2 reference manual" (1000-3625). Gyroscope,
accelerometer and the rotation vector without magnetometer (a motor's neighbour) are asked for every 5 ms; a sample is a
report of the gyroscope with the newest of the others. The chip's own time stamps refer to its interrupt line, which is
not wired here; samples are stamped by counting, and a report that was lost (its number is missing) still counts.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tether.clock import Clock
from tether.contracts import F64
from tether.hardware.i2c import I2cDevice
from tether.hardware.imu_clock import CountedClock
from tether.hardware.imu_mpu6050 import ImuStateError

HEADER = struct.Struct("<HBB")
CONTINUED = 0x8000
EXECUTABLE, CONTROL, INPUT = 1, 2, 3
RESET, RESET_DONE = 1, 1
PRODUCT_ID_REQUEST, PRODUCT_ID, SET_FEATURE = 0xF9, 0xF8, 0xFD
TIME_BASE, TIME_REBASE = 0xFB, 0xFA
ACCELEROMETER, GYROSCOPE, GAME_ROTATION = 0x01, 0x02, 0x08
SIZES = {TIME_BASE: 5, TIME_REBASE: 5, ACCELEROMETER: 10, GYROSCOPE: 10, GAME_ROTATION: 12}
FEATURE = struct.Struct("<BBBHIII")
PERIOD_US = 5000
Q8, Q9, Q14 = 2.0**-8, 2.0**-9, 2.0**-14
_BOOT_S = 0.3
_SETUP_PACKETS = 40
_MOST_PACKETS = 40
_LONGEST = 1024


@dataclass
class _Newest:
    accel: F64 | None = None
    orientation_xyzw: F64 | None = None


class Bno085:
    """See `tether.hardware.imu.Chip`."""

    def __init__(self, device: I2cDevice, clock: Clock) -> None:
        self._device = device
        self._steady = clock
        self._clock = CountedClock(PERIOD_US * 1000)
        self._sequence = [0] * 6
        self._newest = _Newest()
        self._last_number: int | None = None

    def set_up(self) -> None:
        """Reset, ask who is there, and ask for the reports. OSError of the bus, ImuStateError where nobody answers."""
        self._device.open()
        self._sequence = [0] * 6
        self._newest, self._last_number = _Newest(), None
        self._send(EXECUTABLE, bytes([RESET]))
        time.sleep(_BOOT_S)
        for _ in range(_SETUP_PACKETS):  # what the chip says of itself after a reset
            if self._receive() is None:
                break
        self._send(CONTROL, bytes([PRODUCT_ID_REQUEST, 0]))
        end_s = time.monotonic() + _BOOT_S
        while True:
            found = self._receive()
            if found is not None and found[0] == CONTROL and found[1][:1] == bytes([PRODUCT_ID]):
                break
            if time.monotonic() > end_s:
                raise ImuStateError("IMU: no product id, expected one of a BNO085; fix: `imu.kind`, PS0 and PS1 low")
        for report in (ACCELEROMETER, GAME_ROTATION, GYROSCOPE):
            self._send(CONTROL, FEATURE.pack(SET_FEATURE, report, 0, 0, PERIOD_US, 0, 0))
        self._clock.restart()

    def poll(self) -> list[tuple[int, F64, F64, F64 | None]]:
        """See `Chip`. ImuStateError where the chip has reset itself."""
        found: list[tuple[int, F64, F64, F64 | None]] = []
        count = 0
        for _ in range(_MOST_PACKETS):
            packet = self._receive()
            if packet is None:
                break
            channel, cargo = packet
            if channel == EXECUTABLE and cargo[:1] == bytes([RESET_DONE]):
                raise ImuStateError("IMU: the chip has reset itself; fix: its supply")
            if channel != INPUT:
                continue
            for report in _reports(cargo):
                step = self._take(report)
                count += step
                if step and self._newest.accel is not None:
                    gyro = np.array(struct.unpack_from("<3h", report, 4)) * Q9
                    found.append((count, gyro, self._newest.accel, self._newest.orientation_xyzw))
        stamps = self._clock.stamps(count, self._steady.now_ns())
        return [(stamps[at - 1], gyro, accel, orientation) for at, gyro, accel, orientation in found]

    def _take(self, report: bytes) -> int:
        """Keep what a report says; by how much the gyroscope's count went on, 0 for other reports."""
        kind = report[0]
        if kind == ACCELEROMETER:
            self._newest.accel = np.array(struct.unpack_from("<3h", report, 4)) * Q8
        elif kind == GAME_ROTATION:
            quaternion = np.array(struct.unpack_from("<4h", report, 4)) * Q14
            norm = float(np.linalg.norm(quaternion))
            self._newest.orientation_xyzw = quaternion / norm if norm > 0.5 else None
        elif kind == GYROSCOPE:
            step = 1 if self._last_number is None else (report[1] - self._last_number) % 256
            self._last_number = report[1]
            return step
        return 0

    def _send(self, channel: int, cargo: bytes) -> None:
        head = HEADER.pack(len(cargo) + HEADER.size, channel, self._sequence[channel])
        self._sequence[channel] = (self._sequence[channel] + 1) % 256
        self._device.write_only(list(head + cargo))

    def _receive(self) -> tuple[int, bytes] | None:
        """The next packet, None where none waits: the header first, then the packet, which begins with it again."""
        length = HEADER.unpack(self._device.read_only(HEADER.size))[0] & ~CONTINUED
        if length in (0, CONTINUED - 1):  # an idle chip reads as zeros, an absent one as ones
            return None
        if not HEADER.size <= length <= _LONGEST:
            raise ImuStateError(f"IMU: a packet of {length} bytes, expected at most {_LONGEST}; out of step")
        data = self._device.read_only(length)
        return HEADER.unpack_from(data)[1], data[HEADER.size :]


def _reports(cargo: bytes) -> Iterator[bytes]:
    """The reports of a packet; what is unknown ends it, since its length is unknown, too."""
    at = 0
    while at < len(cargo):
        size = SIZES.get(cargo[at])
        if size is None or at + size > len(cargo):
            return
        yield cargo[at : at + size]
        at += size
