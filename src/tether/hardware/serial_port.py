"""A serial port with deadlines: raw bytes, one owner, and an error of its own where the device has gone.

Written on termios rather than on a package: a robot is a Linux machine, and what a bus at 100 Hz needs (a deadline on
every read, the kernel's low-latency mode, one error for all the ways in which a USB plug is pulled) is little.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import termios
import time
from pathlib import Path
from typing import Protocol

from tether.errors import TetherError

BAUD_RATES = {rate: int(getattr(termios, f"B{rate}")) for rate in (57_600, 115_200, 500_000, 1_000_000)}
_TIOCGSERIAL, _TIOCSSERIAL, _ASYNC_LOW_LATENCY = 0x541E, 0x541F, 0x2000
_SERIAL_STRUCT_INTS = 18
"""struct serial_struct of linux/serial.h holds its flags in the fifth int; 18 ints are at least its size."""
_WRITE_DEADLINE_S = 0.05
_CHUNK = 4096


class PortLostError(TetherError):
    """The device has gone: unplugged, or its adapter was reset."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"serial port {path}: {why}; expected the adapter to be plugged in; fix: check the USB cable")


class Port(Protocol):
    """What a bus needs of a port."""

    def write(self, data: bytes) -> None:
        """Send all of `data`; PortLostError where the device has gone."""

    def read(self, deadline_s: float) -> bytes:
        """What has come, as soon as anything has; empty once `deadline_s` (time.monotonic) is over."""

    def discard(self) -> int:
        """Throw away what has come unasked; returns the number of bytes."""

    def close(self) -> None:
        """Give the device up."""

    def fileno(self) -> int:
        """The open device, for a guard to hold as well."""


class SerialPort:
    """See `Port`. Opened for this process alone."""

    def __init__(self, path: Path, baud: int) -> None:
        """Raises PortLostError where the device cannot be opened, ValueError for a rate that Linux does not name."""
        if baud not in BAUD_RATES:
            raise ValueError(f"baud rate {baud}, expected one of {', '.join(map(str, BAUD_RATES))}")
        self.path = str(path)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise PortLostError(self.path, error.strerror or str(error)) from error
        try:
            fcntl.ioctl(self._fd, termios.TIOCEXCL)
            _make_raw(self._fd, BAUD_RATES[baud])
            termios.tcflush(self._fd, termios.TCIOFLUSH)
        except (OSError, termios.error) as error:
            self.close()
            raise PortLostError(self.path, str(error)) from error
        _ask_low_latency(self._fd)

    def write(self, data: bytes) -> None:
        """See `Port`."""
        left = memoryview(data)
        deadline_s = time.monotonic() + _WRITE_DEADLINE_S
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                if not select.select([], [self._fd], [], max(0.0, deadline_s - time.monotonic()))[1]:
                    raise PortLostError(self.path, f"takes no bytes for {_WRITE_DEADLINE_S:g} s") from None
            except OSError as error:
                raise PortLostError(self.path, _reason(error)) from error

    def read(self, deadline_s: float) -> bytes:
        """See `Port`."""
        try:
            ready = select.select([self._fd], [], [], max(0.0, deadline_s - time.monotonic()))[0]
            data = os.read(self._fd, _CHUNK) if ready else b""
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise PortLostError(self.path, _reason(error)) from error
        if ready and not data:
            raise PortLostError(self.path, "hung up")
        return data

    def discard(self) -> int:
        """See `Port`."""
        count = 0
        while data := self.read(0.0):
            count += len(data)
        return count

    def fileno(self) -> int:
        """See `Port`."""
        return self._fd

    def close(self) -> None:
        """See `Port`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _make_raw(fd: int, speed: int) -> None:
    """8N1, no flow control, nothing translated, reads never wait."""
    _, _, cflag, _, _, _, control = termios.tcgetattr(fd)
    cflag &= ~(termios.PARENB | termios.CSTOPB | termios.CSIZE | termios.CRTSCTS)
    cflag |= termios.CS8 | termios.CREAD | termios.CLOCAL
    control[termios.VMIN], control[termios.VTIME] = 0, 0
    termios.tcsetattr(fd, termios.TCSANOW, [0, 0, cflag, 0, speed, speed, control])


def _ask_low_latency(fd: int) -> None:
    """Without it FTDI adapters hold bytes back for 16 ms. Adapters and terminals that know no such thing refuse."""
    serial = array.array("i", [0] * _SERIAL_STRUCT_INTS)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _TIOCGSERIAL, serial)
        serial[4] |= _ASYNC_LOW_LATENCY
        fcntl.ioctl(fd, _TIOCSSERIAL, serial)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.EIO, errno.ENXIO, errno.ENODEV):
        return "unplugged"
    return str(error)
