"""A BNO085 packet by packet: reset, product id, features that were asked for, reports with their numbers."""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Sequence

from tether.hardware.imu_bno085 import (
    ACCELEROMETER,
    CONTINUED,
    CONTROL,
    EXECUTABLE,
    FEATURE,
    GAME_ROTATION,
    GYROSCOPE,
    HEADER,
    INPUT,
    PRODUCT_ID,
    PRODUCT_ID_REQUEST,
    Q8,
    Q9,
    Q14,
    RESET,
    RESET_DONE,
    SET_FEATURE,
    TIME_BASE,
)

_QUEUE = 32
"""Packets that the chip keeps for a host that does not read."""


class EmulatedBno085:
    """See `tether.hardware.emulate.i2c.Device`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.failing: int | None = None
        self.lose = 0
        """Reports of the gyroscope to leave out from now on, their numbers used up."""
        self._start()

    def push(self, gyro_rad_s: Sequence[float], accel_m_s2: Sequence[float], xyzw: Sequence[float]) -> None:
        """One sample along the chip's axes, as the reports that were asked for."""
        with self._lock:
            reports = struct.pack("<Bi", TIME_BASE, 0)
            for kind, values, scale in ((ACCELEROMETER, accel_m_s2, Q8), (GAME_ROTATION, xyzw, Q14)):
                if kind in self._features:
                    reports += self._report(kind, values, scale)
            if GYROSCOPE in self._features:
                report = self._report(GYROSCOPE, gyro_rad_s, Q9)
                if self.lose:
                    self.lose -= 1
                else:
                    reports += report
                self._put(INPUT, reports)

    def reset(self) -> None:
        """What a supply that dips does."""
        with self._lock:
            self._start()

    def transfer(self, written: bytes, size: int) -> bytes:
        """See `Device`."""
        with self._lock:
            if self.failing is not None:
                raise OSError(self.failing, os.strerror(self.failing))
            if written:
                _, channel, _ = HEADER.unpack_from(written)
                self._told(channel, written[HEADER.size :])
            return self._read(size) if size else b""

    def _start(self) -> None:
        self._features: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._queue: deque[bytes] = deque(maxlen=_QUEUE)
        self._begun = False
        self._put(EXECUTABLE, bytes([RESET_DONE]))

    def _told(self, channel: int, cargo: bytes) -> None:
        if channel == EXECUTABLE and cargo[0] == RESET:
            self._start()
        elif channel == CONTROL and cargo[0] == PRODUCT_ID_REQUEST:
            self._put(CONTROL, bytes([PRODUCT_ID]) + bytes(15))
        elif channel == CONTROL and cargo[0] == SET_FEATURE:
            self._features.add(FEATURE.unpack(cargo)[1])

    def _report(self, kind: int, values: Sequence[float], scale: float) -> bytes:
        number = self._numbers[kind] = (self._numbers.get(kind, 0) + 1) % 256
        words = [max(-32768, min(32767, round(value / scale))) for value in values]
        return struct.pack(f"<4B{len(words)}h", kind, number, 3, 0, *words)

    def _put(self, channel: int, cargo: bytes) -> None:
        self._queue.append(HEADER.pack(len(cargo) + HEADER.size, channel, 0) + cargo)

    def _read(self, size: int) -> bytes:
        if not self._queue:
            return bytes(size)
        packet = self._queue[0]
        if size <= HEADER.size:
            return packet[:size]
        self._queue.popleft()
        length, channel, number = HEADER.unpack_from(packet)
        return (HEADER.pack(length | CONTINUED, channel, number) + packet[HEADER.size :]).ljust(size, b"\0")[:size]
